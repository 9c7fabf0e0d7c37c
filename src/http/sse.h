// Lines of the two streaming formats: Server-Sent Events and newline-delimited JSON.
#pragma once

#include <string>
#include <string_view>

namespace cella::http {

inline constexpr std::string_view kEventStreamType = "text/event-stream";
inline constexpr std::string_view kNdjsonType = "application/x-ndjson";

struct ServerSentEvent {
  std::string_view id;     // what a client sends back as Last-Event-ID; none when empty
  std::string_view event;  // its type; "message" when empty
  std::string_view data;   // may have lines
};

// Appends the event, with its blank line. A line end within id or event becomes a space: it would start a field.
void AppendEvent(const ServerSentEvent& event, std::string& out);

// A comment that keeps proxies and clients from giving up on a silent stream.
inline constexpr std::string_view kKeepAliveComment = ": keep-alive\n\n";

// Appends one line; `json` has no line end of its own, as JSON without indentation never has.
void AppendNdjson(std::string_view json, std::string& out);

}  // namespace cella::http
