#include "http/response_head.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

#include "base/text.h"

namespace cella::http {
namespace {

bool IsOurs(std::string_view name) {
  for (std::string_view own : {"content-length", "transfer-encoding", "connection", "date"}) {
    if (EqualsIgnoringCase(name, own)) return true;
  }
  return false;
}

void AppendLine(std::string& out, std::string_view name, std::string_view value) {
  const size_t start = out.size();
  out += name;
  out += ": ";
  out += value;
  for (size_t i = start; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) out[i] = ' ';
  }
  out += "\r\n";
}

void AppendJsonText(std::string& out, std::string_view text) {
  out += '"';
  for (char c : ToUtf8Lossy(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

bool StatusHasBody(int status) { return status >= 200 && status != 204 && status != 304; }

void FormatHead(const ResponseHead& head, std::string_view date, std::string& out) {
  out.clear();
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("HTTP/1.1 {} {}\r\n"), head.status, ReasonPhrase(head.status));
  if (!date.empty()) AppendLine(out, "Date", date);
  for (const Header& header : head.headers) {
    // 101 names its protocol in Connection, which no handler may set.
    if (!IsOurs(header.name) || head.status == 101) AppendLine(out, header.name, header.value);
  }
  if (head.framing == Framing::kLength) {
    fmt::format_to(std::back_inserter(out), FMT_COMPILE("Content-Length: {}\r\n"), head.length);
  }
  if (head.framing == Framing::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (head.after == After::kClose) out += "Connection: close\r\n";
  if (head.after == After::kKeepAliveOfHttp10) out += "Connection: keep-alive\r\n";
  out += "\r\n";
}

std::string_view DateText::Now() {
  const std::time_t now = std::time(nullptr);
  if (now != second_) {
    second_ = now;
    std::tm parts = {};
    gmtime_r(&now, &parts);
    // The C locale's names, as long as the program does not call setlocale; ours do not.
    std::strftime(text_, sizeof text_, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  }
  return text_;
}

std::string ErrorBody(std::string_view code, std::string_view message, std::string_view hint) {
  std::string body = "{\"error\":{\"code\":";
  AppendJsonText(body, code);
  body += ",\"message\":";
  AppendJsonText(body, message);
  if (!hint.empty()) {
    body += ",\"hint\":";
    AppendJsonText(body, hint);
  }
  body += "}}\n";
  return body;
}

}  // namespace cella::http
