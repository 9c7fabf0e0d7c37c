// A container's stdin, stdout and stderr over one hijacked connection, as the engine multiplexes them without a
// terminal: each piece of output has a header of 8 bytes. On the loop.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "http/client.h"

namespace cella::docker {

class AttachedStream {
 public:
  explicit AttachedStream(std::unique_ptr<http::UpgradedStream> stream) : stream_(std::move(stream)) {}

  // Some bytes of the container's stdout; 0 at the end. What it writes to stderr is kept aside.
  async::Task<Result<size_t>> Read(std::span<char> buffer);
  async::Task<Status> Write(std::string_view bytes, std::chrono::nanoseconds patience) {
    return stream_->Write(bytes, patience);
  }
  void Kill() { stream_->Kill(); }

  // The beginning of what came on stderr.
  const std::string& errors() const { return errors_; }

 private:
  static constexpr size_t kHeader = 8;
  static constexpr size_t kErrors = 4096;

  async::Task<Result<bool>> ReadHeader();

  std::unique_ptr<http::UpgradedStream> stream_;
  uint64_t left_ = 0;  // of the piece that is being read
  bool is_stderr_ = false;
  std::string errors_;
};

}  // namespace cella::docker
