#include "server/run_files.h"

#include "server/hosted_run.h"

namespace cella::server {

void RunFiles::Add(const std::shared_ptr<HostedRun>& run) {
  const uint64_t bytes = run->disk_bytes();
  if (bytes == 0) return;
  entries_.push_back({run, bytes});
  total_ += bytes;
  if (total_ <= bound_) return;
  ForgetDiscarded();
  // Some more than needed, so that the next run does not look at every entry again.
  if (total_ > bound_) ShrinkTo(bound_ - bound_ / 4);
}

bool RunFiles::FreeSome() {
  ForgetDiscarded();
  if (entries_.empty()) return false;
  ShrinkTo(total_ / 2);
  return true;
}

void RunFiles::ForgetDiscarded() {
  std::erase_if(entries_, [this](const Entry& entry) {
    const auto run = entry.run.lock();
    if (run && !run->is_discarded()) return false;
    total_ -= entry.bytes;
    return true;
  });
}

void RunFiles::ShrinkTo(uint64_t bytes) {
  while (total_ > bytes && !entries_.empty()) {
    if (auto run = entries_.front().run.lock()) run->Discard();
    total_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

}  // namespace cella::server
