// Bytes that were read from a connection and not yet used. Grows on demand up to what its caller asks for, and is small
// again when idle: thousands of open connections hold one each. Internal to http.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace cella::http {

class InputBuffer {
 public:
  static constexpr size_t kSmall = 4096;

  std::string_view bytes() const { return {data_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  // Room behind the bytes, at least one byte, in a buffer of `capacity` (or what it has, if that is more). Invalidates
  // bytes(). The caller sees to it that size() < capacity.
  std::span<char> Prepare(size_t capacity) {
    if (begin_ == end_) begin_ = end_ = 0;
    if (capacity > capacity_) {
      Move(capacity);
    } else if (end_ == capacity_ || (begin_ > 0 && capacity_ - end_ < capacity_ / 2)) {
      std::memmove(data_.get(), data_.get() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return {data_.get() + end_, capacity_ - end_};
  }
  void Commit(size_t n) { end_ += n; }
  void Consume(size_t n) { begin_ += n; }

  // Gives back what an idle connection does not need.
  void Shrink() {
    if (capacity_ > kSmall && size() <= kSmall) Move(kSmall);
  }

 private:
  void Move(size_t capacity) {
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (!empty()) std::memcpy(larger.get(), data_.get() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace cella::http
