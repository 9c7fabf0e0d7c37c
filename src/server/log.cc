#include "server/log.h"

#include <fmt/chrono.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "os/syscalls.h"
#include "server/answer.h"
#include "server/config_keys.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

// A pipe that has room takes this much at once.
constexpr size_t kLongestLine = 4096;
constexpr size_t kLongestText = 512;

std::string Now() {
  using std::chrono::milliseconds, std::chrono::seconds;
  const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
  const auto second = std::chrono::floor<seconds>(now);
  return fmt::format("{:%FT%T}.{:03}Z", second, (now - second).count());
}

bool IsEmpty(const Log::Field& field) {
  const auto* text = std::get_if<std::string_view>(&field.value);
  return text != nullptr && text->empty();
}

std::string_view Clipped(std::string_view text) { return text.substr(0, kLongestText); }
template <typename T>
T Clipped(T number) {
  return number;
}

std::string RenderJson(LogLevel level, std::string_view event, std::string_view message,
                       std::span<const Log::Field> fields) {
  Json json;
  json["time"] = Now();
  json["level"] = ToString(level);
  json["event"] = event;
  json["message"] = Clipped(message);
  for (const Log::Field& field : fields) {
    if (IsEmpty(field)) continue;
    std::visit([&](const auto& value) { json[std::string(field.name)] = Clipped(value); }, field.value);
  }
  return ToText(json);
}

// Names of clients and files come from outside: a line stays one, and a terminal is told nothing but letters.
std::string RenderText(LogLevel level, std::string_view message, std::span<const Log::Field> fields) {
  std::string line = level <= LogLevel::kWarning ? fmt::format("{}: ", ToString(level)) : "";
  line += message;
  for (const Log::Field& field : fields) {
    if (IsEmpty(field)) continue;
    std::visit([&](const auto& value) { line += fmt::format(" {}={}", field.name, Clipped(value)); }, field.value);
  }
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return line;
}

}  // namespace

Log::Log(LogLevel least, LogFormat format, int fd)
    : least_(least), json_(format == LogFormat::kJson || (format == LogFormat::kAuto && isatty(fd) == 0)), fd_(fd) {}

void Log::Write(LogLevel level, std::string_view event, std::string_view message, std::span<const Field> fields) {
  if (!Wants(level)) return;
  std::string line = json_ ? RenderJson(level, event, message, fields) : RenderText(level, message, fields);
  // Half a line is no JSON.
  if (line.size() >= kLongestLine) line = json_ ? RenderJson(level, event, event, {}) : RenderText(level, event, {});
  WriteLine(line);
}

void Log::WriteLine(std::string_view line) {
  pollfd room = {fd_, POLLOUT, 0};
  if (os::RetryOnEintr([&] { return poll(&room, 1, 0); }) != 1 || (room.revents & POLLOUT) == 0) {
    ++dropped_;
    return;
  }
  const std::string whole = std::string(line) + '\n';
  (void)os::RetryOnEintr([&] { return write(fd_, whole.data(), whole.size()); });
  if (dropped_ > 0) {
    const uint64_t dropped = std::exchange(dropped_, 0);
    Write(LogLevel::kWarning, "log.dropped", "lines were dropped: no reader took them",
          {{"lines", static_cast<int64_t>(dropped)}});
  }
}

}  // namespace cella::server
