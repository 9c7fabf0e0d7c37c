// What the files of ended runs (events, output, large results) take on disk, over all sessions. Beyond a bound, and
// when the disk is full, the files of the oldest runs go; the registry keeps their Results. Lives on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>

namespace cella::server {

class HostedRun;

class RunFiles {
 public:
  void SetBound(uint64_t bytes) { bound_ = bytes; }
  // The run has ended, and its files grow no more.
  void Add(const std::shared_ptr<HostedRun>& run);
  // Removes the files of the older half. False: there are none.
  bool FreeSome();

  uint64_t total() const { return total_; }

 private:
  struct Entry {
    std::weak_ptr<HostedRun> run;
    uint64_t bytes = 0;
  };
  void ForgetDiscarded();
  void ShrinkTo(uint64_t bytes);

  std::deque<Entry> entries_;  // oldest first; also of runs that their session has forgotten since
  uint64_t total_ = 0;
  uint64_t bound_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace cella::server
