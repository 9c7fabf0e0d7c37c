#include "cli/session_events.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "cli/repl/escape_filter.h"

namespace cella::cli {
namespace {

using Json = nlohmann::ordered_json;

// All of it, also behind a NUL.
void Write(std::string_view text, FILE* file) { (void)std::fwrite(text.data(), 1, text.size(), file); }

void WriteLine(std::string_view text, FILE* file) {
  Write(text, file);
  if (!text.ends_with('\n')) Write("\n", file);
}

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// " 640x480"; empty: its head is not that of a PNG.
std::string SizeOfPng(std::string_view base64) {
  // The signature, the length and type of the first chunk, width and height: 24 bytes.
  const auto head = DecodeBase64(base64.substr(0, 32));
  if (!head || head->size() != 24 || !head->starts_with("\x89PNG")) return "";
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>((*head)[i]);
    return value;
  };
  return fmt::format(" {}x{}", number(16), number(20));
}

// A picture by its name, everything else by its text.
std::string TextOfDisplay(const Json& event) {
  const auto mime = event.find("mime");
  if (mime == event.end() || !mime->is_object()) return "";
  for (const auto& [type, data] : mime->items()) {
    if (!type.starts_with("image/")) continue;
    const bool is_png = type == "image/png" && data.is_string();
    return fmt::format("[{}{}]", PlainText(type), is_png ? SizeOfPng(data.get_ref<const std::string&>()) : "");
  }
  if (mime->contains("text/plain")) return TextOf(*mime, "text/plain");
  return mime->empty() ? "" : fmt::format("[{}]", PlainText(mime->begin().key()));
}

}  // namespace

void SessionEvents::Show(const Json& event) {
  if (!event.is_object()) return;
  const std::string type = TextOf(event, "type");
  if (type == "stdout") Write(TextOf(event, "text"), stdout);
  if (type == "value") WriteLine(TextOf(event, "text"), stdout);
  if (type == "display") {
    if (const std::string text = TextOfDisplay(event); !text.empty()) WriteLine(text, stdout);
  }
  if (type == "stderr") Write(TextOf(event, "text"), stderr);
  if (type == "error") {
    error_shown_ = true;
    if (const std::string traceback = TextOf(event, "traceback"); !traceback.empty()) WriteLine(traceback, stderr);
  }
  if (type == "truncated") {
    fmt::print(stderr, "cella: {} bytes of {} were dropped here, beyond the session's limit of output\n",
               event.value("dropped", uint64_t{0}), TextOf(event, "stream"));
  }
  std::fflush(stdout);
  if (type == "finished") ShowEnd(event);
  if (type == "finished") exit_code_ = event.value("exit_code", kExitRejected);
}

void SessionEvents::ShowEnd(const Json& event) const {
  const auto error = event.find("error");
  const std::string status = TextOf(event, "status");
  const bool told = status == "ok" || (status == "error" && error_shown_);
  if (!told && error != event.end() && error->is_object()) {
    fmt::print(stderr, "cella: {}\n", PlainText(TextOf(*error, "message")));
  } else if (status == "crashed") {
    fmt::print(stderr, "cella: ended by signal {}\n", event.value("signal", Json()).dump());
  }
  const std::string state = TextOf(event, "state");
  if (state == "rolled_back") std::fputs("cella: the variables are as before this run\n", stderr);
  if (state == "lost") std::fputs("cella: the state of the session is lost\n", stderr);
}

}  // namespace cella::cli
