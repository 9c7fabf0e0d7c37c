#include "docker/attached_stream.h"

namespace cella::docker {

// False: the stream ended between two pieces.
async::Task<Result<bool>> AttachedStream::ReadHeader() {
  std::array<char, kHeader> header;
  size_t have = 0;
  while (have < kHeader) {
    auto read = co_await stream_->Read(std::span(header).subspan(have));
    if (!read) co_return std::unexpected(std::move(read.error()));
    if (*read == 0 && have == 0) co_return false;
    if (*read == 0) co_return Err(ErrorCode::kClosed, "the engine's stream ended inside a header");
    have += *read;
  }
  const auto kind = static_cast<unsigned char>(header[0]);
  if (kind > 2 || header[1] != 0 || header[2] != 0 || header[3] != 0) {
    co_return Err(ErrorCode::kInvalid, "the engine's stream has a malformed header");
  }
  is_stderr_ = kind == 2;
  left_ = 0;
  for (size_t i = 4; i < kHeader; ++i) left_ = left_ << 8 | static_cast<unsigned char>(header[i]);
  co_return true;
}

async::Task<Result<size_t>> AttachedStream::Read(std::span<char> buffer) {
  for (;;) {
    while (left_ == 0) {
      auto more = co_await ReadHeader();
      if (!more) co_return std::unexpected(std::move(more.error()));
      if (!*more) co_return size_t{0};
    }
    auto read = co_await stream_->Read(buffer.first(std::min<uint64_t>(buffer.size(), left_)));
    if (!read) co_return std::unexpected(std::move(read.error()));
    if (*read == 0) co_return Err(ErrorCode::kClosed, "the engine's stream ended inside a piece of output");
    left_ -= *read;
    if (!is_stderr_) co_return *read;
    errors_.append(buffer.data(), std::min(*read, kErrors - errors_.size()));
  }
}

}  // namespace cella::docker
