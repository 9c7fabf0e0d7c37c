#include "http/sse.h"

namespace cella::http {
namespace {

void AppendField(std::string_view name, std::string_view value, std::string& out) {
  out += name;
  out += ": ";
  // A zero byte in an id makes clients ignore it.
  for (char c : value) out += c == '\n' || c == '\r' || c == '\0' ? ' ' : c;
  out += '\n';
}

}  // namespace

void AppendEvent(const ServerSentEvent& event, std::string& out) {
  if (!event.id.empty()) AppendField("id", event.id, out);
  if (!event.event.empty()) AppendField("event", event.event, out);
  std::string_view data = event.data;
  for (;;) {
    // CR, LF and CR LF all end a line there.
    size_t end = data.find_first_of("\r\n");
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == data.npos) break;
    data.remove_prefix(data.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  out += '\n';
}

void AppendNdjson(std::string_view json, std::string& out) {
  out += json;
  out += '\n';
}

}  // namespace cella::http
