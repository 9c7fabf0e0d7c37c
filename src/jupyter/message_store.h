// Messages that came and wait to be taken, in order. Few are kept in memory, more in a file without a name, and beyond
// the file's bound they are dropped and counted: a kernel may flood, and it drops its own output if it is not read.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "zmtp/peer.h"

namespace cella::jupyter {

struct StoreBounds {
  size_t memory = size_t{4} << 20;
  size_t messages = 4096;  // in memory
  uint64_t file = uint64_t{256} << 20;
};

class MessageStore {
 public:
  // `directory` is where the file is made, when it is needed.
  explicit MessageStore(std::string directory, StoreBounds bounds = {})
      : directory_(std::move(directory)), bounds_(bounds) {}

  void Push(zmtp::Message message);
  std::optional<zmtp::Message> Take();
  bool empty() const { return memory_.empty() && read_at_ == write_at_; }
  // Since the last call.
  uint64_t TakeDropped() { return std::exchange(dropped_, 0); }
  void Clear();

  size_t memory_bytes() const { return memory_bytes_; }
  uint64_t file_bytes() const { return write_at_ - read_at_; }

 private:
  bool Spill(const zmtp::Message& message);
  std::optional<zmtp::Message> TakeSpilled();

  const std::string directory_;
  const StoreBounds bounds_;
  std::deque<zmtp::Message> memory_;  // before everything in the file
  size_t memory_bytes_ = 0;
  UniqueFd file_;
  uint64_t read_at_ = 0, write_at_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace cella::jupyter
