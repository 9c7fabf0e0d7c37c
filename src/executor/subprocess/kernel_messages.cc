#include "executor/subprocess/kernel_messages.h"

#include <fmt/format.h>

#include <charconv>

namespace cella::executor {
namespace {

using jupyter::Json;
using jupyter::Text;

// As in sessions of the sandbox (runners/python/cella_runner/display.py). What reads displays is not made for more.
constexpr size_t kMostTypes = 64;
constexpr size_t kMostMetadata = 1000;
constexpr const char* kPlain = "text/plain";

size_t CountValues(const Json& json) {
  size_t count = 1;
  if (json.is_structured()) {
    for (const Json& each : json) count += CountValues(each);  // the depth of messages is bounded
  }
  return count;
}

RunError ToError(const Json& content) {
  RunError error{Text(content, "ename"), Text(content, "evalue"), ""};
  auto traceback = content.find("traceback");
  if (traceback != content.end() && traceback->is_array()) {
    for (const Json& line : *traceback) {
      if (!line.is_string()) continue;
      if (!error.traceback.empty()) error.traceback += '\n';
      error.traceback += line.get<std::string>();
    }
  }
  error.traceback = StripAnsi(error.traceback);
  return error;
}

// What `sys.exit(value)` means, from the text of the value.
void TakeExit(const std::string& value, ReplyAnswer& reply) {
  reply.answer.status = run::GuestAnswer::Status::kExit;
  if (value.empty() || value == "None" || value == "False") return;
  int64_t code = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), code);
  if (failure == std::errc() && end == value.data() + value.size()) {
    reply.answer.exit_code = static_cast<int>(code & 0xff);
    return;
  }
  reply.answer.exit_code = failure == std::errc::result_out_of_range ? 255 : 1;
  if (value != "True" && failure != std::errc::result_out_of_range) reply.message = value + "\n";
}

}  // namespace

std::string StripAnsi(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b' || i + 1 >= text.size() || text[i + 1] != '[') {
      plain += text[i];
      continue;
    }
    for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
  }
  return plain;
}

MimeBundle ToBundle(const Json& content) {
  MimeBundle bundle;
  auto add = [&](const std::string& type, const Json& data) {
    bundle.data.emplace_back(type, data.is_string() ? data.get<std::string>() : jupyter::Dump(data));
  };
  auto leave_out = [&](const std::string& what) {
    if (bundle.data.empty() || bundle.data.front().first != kPlain)
      bundle.data.insert(bundle.data.begin(), {kPlain, ""});
    std::string& text = bundle.data.front().second;
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += what;
  };
  const Json& all = jupyter::Object(content, "data");
  if (all.size() <= kMostTypes) {
    for (const auto& [type, data] : all.items()) add(type, data);
  } else {
    const auto plain = all.find(kPlain);
    if (plain != all.end()) add(kPlain, *plain);
    const size_t kept = plain != all.end() ? 1 : 0;
    leave_out(fmt::format("[{} representations were left out: at most {} are sent]", all.size() - kept, kMostTypes));
  }
  const Json& metadata = jupyter::Object(content, "metadata");
  if (metadata.empty()) return bundle;
  if (CountValues(metadata) <= kMostMetadata) {
    bundle.metadata = jupyter::Dump(metadata);
  } else {
    leave_out(fmt::format("[metadata of more than {} values was left out]", kMostMetadata));
  }
  return bundle;
}

std::optional<Event> ToEvent(const std::string& type, const Json& content) {
  if (type == "stream") {
    const Stream stream = Text(content, "name") == "stderr" ? Stream::kStderr : Stream::kStdout;
    return OutputEvent{stream, Text(content, "text")};
  }
  if (type == "execute_result") {
    return ValueEvent{StripAnsi(Text(jupyter::Object(content, "data"), "text/plain")), ToBundle(content)};
  }
  if (type == "display_data" || type == "update_display_data") {
    return DisplayEvent{ToBundle(content), Text(jupyter::Object(content, "transient"), "display_id"),
                        type == "update_display_data"};
  }
  if (type == "clear_output") return DisplayEvent{{}, "", false, true};
  if (type == "error") return ErrorEvent{ToError(content)};
  return std::nullopt;
}

ReplyAnswer ToAnswer(const Json& content) {
  ReplyAnswer reply;
  const std::string status = Text(content, "status");
  if (status != "ok") {
    const std::string name = Text(content, "ename");
    if (name == "SystemExit") {
      TakeExit(Text(content, "evalue"), reply);
    } else {
      const bool interrupted = name == "KeyboardInterrupt";
      reply.answer.status = interrupted ? run::GuestAnswer::Status::kInterrupted : run::GuestAnswer::Status::kError;
      reply.answer.exit_code = interrupted ? kExitInterrupted : 1;
      reply.error = ToError(content);
      if (reply.error->name.empty()) {
        reply.error = RunError{"KernelError", "the kernel ended the run with status '" + status + "'", ""};
      }
    }
  }
  auto payloads = content.find("payload");
  if (payloads == content.end() || !payloads->is_array()) return reply;
  for (const Json& payload : *payloads) {
    if (!payload.is_object()) continue;
    const std::string source = Text(payload, "source");
    if (source == "page") reply.pager += StripAnsi(Text(jupyter::Object(payload, "data"), "text/plain"));
    if (source == "ask_exit") reply.kernel_exits = !jupyter::Flag(payload, "keepkernel");
  }
  return reply;
}

}  // namespace cella::executor
