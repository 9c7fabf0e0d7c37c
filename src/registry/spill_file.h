// A file of ours (in the state directory, not the guest's) that grows at its end and is read anywhere. It exists from
// the first byte on, and no descriptor stays open between calls, so that thousands may be idle. Whole batches only:
// what could not be written counts as not there. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::registry {

class SpillFile {
 public:
  explicit SpillFile(std::string path) : path_(std::move(path)) {}

  uint64_t size() const { return size_; }

  // Goes to the page cache: fast, as long as the caller's pieces are small. All or nothing.
  Status Append(std::string_view bytes);
  // As much as there is, up to the buffer.
  Result<size_t> ReadAt(uint64_t offset, std::span<char> buffer) const;
  void Remove();

 private:
  std::string path_;
  uint64_t size_ = 0;
};

}  // namespace cella::registry
