// Waiting for descriptors on the loop. A Descriptor never changes the file description (O_NONBLOCK would be shared
// with other processes that hold a terminal or a pipe): it waits until the kernel says "ready" and then makes one call
// that cannot block.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <span>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::async {

class Descriptor {
 public:
  // Owns the descriptor.
  Descriptor(Loop& loop, UniqueFd fd);
  Descriptor(Descriptor&&) = default;

  int fd() { return descriptor_.native_handle(); }
  bool is_open() const { return descriptor_.is_open(); }
  void Close();

  // True when readable (or at its end), false when cancelled.
  Task<bool> Readable();

  // Bytes read; 0 at the end or when cancelled.
  Task<Result<size_t>> ReadSome(std::span<char> buffer);

  // Writes everything, waiting for room; kClosed when the reader went away.
  Task<Status> WriteAll(std::string_view bytes);

 private:
  Task<bool> Writable();

  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace cella::async
