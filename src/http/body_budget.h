// The memory of all bodies and messages that a server holds at a time. A share grows while one is read, and gives back
// what it holds when its request is over. Lives on the loop; the budget outlives its shares.
#pragma once

#include <cstdint>
#include <utility>

namespace cella::http {

class BodyBudget {
 public:
  explicit BodyBudget(uint64_t limit) : limit_(limit) {}
  uint64_t used() const { return used_; }

  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { GiveBack(); }

    // False: there is no room for so many bytes more.
    bool Grow(uint64_t bytes) {
      if (bytes > budget_.limit_ - budget_.used_) return false;
      budget_.used_ += bytes;
      held_ += bytes;
      return true;
    }
    void GiveBack() { budget_.used_ -= std::exchange(held_, 0); }

   private:
    BodyBudget& budget_;
    uint64_t held_ = 0;
  };

 private:
  const uint64_t limit_;
  uint64_t used_ = 0;
};

}  // namespace cella::http
