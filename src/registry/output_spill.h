// All that one output stream of one run wrote, up to a bound on disk, to be paged through by offset when the Result has
// only its head and tail. What goes beyond the bound, or does not fit on the disk, is counted and lost; the run never
// fails for it. Lives on the loop; holds at most 16 KiB of memory and no descriptor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "registry/spill_file.h"

namespace cella::registry {

class OutputSpill {
 public:
  static constexpr uint64_t kDefaultBound = uint64_t{64} << 20;

  explicit OutputSpill(std::string path, uint64_t bound = kDefaultBound) : file_(std::move(path)), bound_(bound) {}

  void Append(std::string_view bytes);
  // When the stream has ended: what is still in memory goes to disk.
  void Settle();
  // When it is read no more. What comes after is counted and dropped.
  void Discard();

  uint64_t total() const { return total_; }                         // what the stream wrote
  uint64_t kept() const { return file_.size() + pending_.size(); }  // the first so many bytes of it can be read
  uint64_t disk_bytes() const { return file_.size(); }
  size_t memory_used() const { return pending_.capacity(); }

  // At most `at_most` bytes from `offset` on; empty behind what is kept. kInvalid behind what was written.
  Result<std::string> Read(uint64_t offset, size_t at_most) const;

 private:
  void Flush(std::string_view more);

  SpillFile file_;
  uint64_t bound_;
  uint64_t total_ = 0;
  std::string pending_;  // of what is kept, not yet on disk
  bool full_ = false;    // of the disk or the bound: a later piece must not look as if it followed
};

}  // namespace cella::registry
