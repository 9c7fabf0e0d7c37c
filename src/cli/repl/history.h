// What was typed before, oldest first: at most kMaxEntries, of at most kMaxEntry bytes each. On disk one entry a line,
// with line breaks and backslashes escaped, private to the user; several programs may append to one file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::cli {

class History {
 public:
  static constexpr size_t kMaxEntries = 10'000;
  static constexpr size_t kMaxEntry = size_t{64} << 10;

  // Reads the file, if it is there, and appends to it from now on. Without this call, nothing is kept on disk.
  Status Open(std::string path);

  // Not when it is blank, begins with a space, is what came last, or is too long.
  void Add(const std::string& entry);

  const std::vector<std::string>& entries() const { return entries_; }

 private:
  Status Append(const std::string& entry) const;

  std::string path_;  // empty: not on disk
  std::vector<std::string> entries_;
};

// One line, without its end.
std::string EncodeEntry(std::string_view entry);
std::string DecodeEntry(std::string_view line);

}  // namespace cella::cli
