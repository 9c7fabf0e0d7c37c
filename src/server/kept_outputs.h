// What of a run is too large for memory: its whole Result, and outputs that are too large for the Result. In one file
// on disk, up to a bound, until the run is forgotten. Written and read on a pool. Lives on the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "cella/outcome.h"
#include "registry/spill_file.h"

namespace cella::server {

class KeptOutputs {
 public:
  KeptOutputs(async::BlockingPool& pool, std::string path, uint64_t bound)
      : pool_(pool), file_(std::move(path)), bound_(bound) {}

  // One call at a time. What has no room is lost.
  async::Task<void> Add(size_t index, MimeBundle bundle);
  // True: it was written. The text outlives the call.
  async::Task<bool> AddResult(const std::string& result);

  // The callers of these keep the run alive. kNotFound: it was not kept, or not for so long.
  async::Task<Result<std::string>> Read(size_t index, std::string_view type) const;
  async::Task<Result<std::string>> ReadResult() const;
  void Discard();
  uint64_t disk_bytes() const { return file_.size(); }

 private:
  struct Part {
    size_t index = 0;
    std::string type;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  async::Task<std::optional<uint64_t>> Append(const std::string& text);
  async::Task<Result<std::string>> ReadPart(Part part) const;

  async::BlockingPool& pool_;
  registry::SpillFile file_;
  const uint64_t bound_;
  std::vector<Part> parts_;
  std::optional<Part> result_;
  bool discarded_ = false;
};

}  // namespace cella::server
