#include "base/output_cap.h"

#include <algorithm>
#include <utility>

namespace cella {

std::string_view OutputCap::Feed(std::string_view bytes) {
  std::string_view head = bytes.substr(0, std::min<uint64_t>(head_left_, bytes.size()));
  head_left_ -= head.size();
  std::string_view rest = bytes.substr(head.size());
  tail_.append(rest);
  if (tail_.size() > 2 * tail_cap_) {
    uint64_t excess = tail_.size() - tail_cap_;
    tail_.erase(0, excess);
    dropped_ += excess;
  }
  return head;
}

OutputCap::Rest OutputCap::Finish() {
  if (tail_.size() > tail_cap_) {
    uint64_t excess = tail_.size() - tail_cap_;
    tail_.erase(0, excess);
    dropped_ += excess;
  }
  return {std::exchange(dropped_, 0), std::exchange(tail_, {})};
}

}  // namespace cella
