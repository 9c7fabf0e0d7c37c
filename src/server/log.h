// What the server reports to its operator, a line each: JSON for programs, or text for people. Neither code nor output
// of guests, nor secrets, are ever given to it. Lives on the loop, and never waits for a slow reader: lines that find
// no room are counted instead, and the count is written later.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/config.h"

namespace cella::server {

class Log {
 public:
  struct Field {
    std::string_view name;
    std::variant<std::string_view, int64_t, double> value;  // texts that are empty are left out
  };

  // Writes to a descriptor that outlives this; kAuto looks whether it is a terminal.
  Log(LogLevel least, LogFormat format, int fd);

  bool Wants(LogLevel level) const { return level <= least_; }
  // `event` is for programs ("session.opened") and never changes; `message` is for people.
  void Write(LogLevel level, std::string_view event, std::string_view message, std::span<const Field> fields);
  void Write(LogLevel level, std::string_view event, std::string_view message,
             std::initializer_list<Field> fields = {}) {
    Write(level, event, message, std::span<const Field>(fields.begin(), fields.size()));
  }

 private:
  void WriteLine(std::string_view line);

  const LogLevel least_;
  const bool json_;
  const int fd_;
  uint64_t dropped_ = 0;
};

}  // namespace cella::server
