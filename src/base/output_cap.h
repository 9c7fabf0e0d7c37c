// Keeps the first and the last part of a stream and counts what lies between. Bounded: holds at most the cap and
// one chunk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cella {

class OutputCap {
 public:
  explicit OutputCap(uint64_t cap) : head_left_(cap - cap / 2), tail_cap_(cap / 2) {}

  // What of these bytes belongs to the head and may be passed on at once; the rest is kept as tail.
  std::string_view Feed(std::string_view bytes);

  struct Rest {
    uint64_t dropped = 0;
    std::string tail;
  };
  // At the end of the stream: what was dropped, and the tail behind it.
  Rest Finish();

 private:
  uint64_t head_left_;
  uint64_t tail_cap_;
  uint64_t dropped_ = 0;
  std::string tail_;  // up to twice the cap, so that trimming is rare
};

}  // namespace cella
