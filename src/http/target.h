// The target of a request, decoded once and strictly: what comes out holds no way to leave a directory, however it was
// written. Everything points into the bytes that were parsed or into the Target itself, so a Target stays where it is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::http {

struct QueryParameter {
  std::string_view name;
  std::string_view value;  // empty without '='
};

class Target {
 public:
  Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Takes "/a/b?c=d" and "http://host/a/b?c=d". Refused: a bad escape, a zero or control byte, malformed or overlong
  // UTF-8, a backslash, an empty segment, "." and ".." - also where an escaped slash makes them.
  Status Parse(std::string_view raw);

  std::string_view path() const { return path_; }  // as sent
  // "/a/b" and "/a/b/" both have two.
  std::span<const std::string_view> segments() const { return segments_; }
  bool has_trailing_slash() const { return has_trailing_slash_; }
  // One of the segments holds a '/' that was sent as %2F.
  bool has_escaped_slash() const { return has_escaped_slash_; }
  // The segments from `first` on as one relative path, escaped slashes as slashes; empty when there are none.
  std::string Rest(size_t first) const;

  std::span<const QueryParameter> parameters() const { return parameters_; }
  // The first of that name.
  std::optional<std::string_view> parameter(std::string_view name) const;

 private:
  enum class Part { kPath, kQuery };

  Status ParsePath(std::string_view path);
  Status ParseQuery(std::string_view query);
  Result<std::string_view> Decode(std::string_view text, Part part);

  std::string_view path_;
  std::string decoded_;  // its capacity is set before anything points into it
  std::vector<std::string_view> segments_;
  std::vector<QueryParameter> parameters_;
  bool has_trailing_slash_ = false;
  bool has_escaped_slash_ = false;
};

// Strict: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace cella::http
