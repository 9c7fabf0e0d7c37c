// The body of a request, in the order of a connection's bytes: also when no handler reads it.
#include "http/connection.h"

namespace cella::http {

using async::Clock;
using async::Task;

namespace {

constexpr size_t kBodyBuffer = size_t{64} << 10;
// A client that has sent so much is given room for all of its announced length: growing in steps costs as much again.
// What is not filled yet is address space, not memory.
constexpr size_t kTrusted = size_t{1} << 20;
constexpr size_t kMaxChunkLine = size_t{8} << 10;  // also for all trailers

}  // namespace

Task<Status> Connection::SendContinue() {
  // A client that has sent a part of the body does not wait for it.
  if (continue_sent_ || !request_.expects_continue() || body_read_ > 0 || answer_ != Answer::kNone) {
    co_return Status{};
  }
  continue_sent_ = true;
  Status written = co_await WriteParts({"HTTP/1.1 100 Continue\r\n\r\n", {}, {}});
  co_return written;
}

// Empty at the end. Says nothing to the client.
Task<Result<std::string_view>> Connection::NextPiece() {
  Parser& parser = request_.parser();
  input_.Consume(std::exchange(piece_, 0));
  while (!parser.is_done()) {
    CO_TRY(Parser::Piece piece, parser.ParseBody(input_.bytes()));
    if (!piece.body.empty()) {
      piece_ = piece.consumed;
      body_read_ += piece.body.size();
      co_return piece.body;
    }
    input_.Consume(piece.consumed);
    if (parser.is_done()) break;
    if (input_.size() >= kMaxChunkLine)
      co_return Err(ErrorCode::kInvalid, "a chunk's line or the trailers are too long");
    Status asked = co_await SendContinue();
    CO_TRY_VOID(asked);
    // What a small body needs is there already; more than that comes in larger pieces.
    auto length = request_.content_length();
    const bool large = !length || *length - body_read_ > InputBuffer::kSmall;
    stream_->AllowReadsUntil(Clock::now() + context_.limits.body_stall);
    auto n = co_await stream_->Read(input_.Prepare(large ? kBodyBuffer : InputBuffer::kSmall));
    stream_->AllowReadsForever();
    CO_TRY(size_t count, std::move(n));
    if (count == 0) {
      peer_ended_ = true;
      co_return Err(ErrorCode::kClosed, "the client left within its request");
    }
    input_.Commit(count);
  }
  co_return std::string_view();
}

Task<Error> Connection::FailBody(Error error) {
  must_close_ = true;
  if (answer_ == Answer::kNone && !stream_->is_killed()) {
    if (error.sys_errno == ETIMEDOUT) {
      (void)co_await SendError(408, "timeout", "the body of the request came too slowly");
    } else if (error.code == ErrorCode::kInvalid) {
      (void)co_await SendError(400, "bad_request", "malformed body: " + error.message);
    } else {
      Abort();
    }
  }
  co_return error;
}

Task<Result<std::string_view>> Connection::ReadSome() {
  auto piece = co_await NextPiece();
  if (piece) co_return *piece;
  Error error = co_await FailBody(std::move(piece.error()));
  co_return std::unexpected(std::move(error));
}

Task<Result<std::string>> Connection::ReadBody(uint64_t limit) {
  std::string body;
  bool fits = request_.content_length().value_or(0) <= limit;
  // A promise of a length is not yet a reason to hold memory for it.
  if (fits) body.reserve(std::min<uint64_t>(request_.content_length().value_or(0), kBodyBuffer));
  while (fits) {
    auto piece = co_await ReadSome();
    CO_TRY(std::string_view bytes, std::move(piece));
    if (bytes.empty()) co_return body;
    fits = bytes.size() <= limit - body.size();
    if (!fits) break;
    if (!body_.Grow(bytes.size())) {
      must_close_ = true;
      const std::string busy = "the bodies of other requests take all the room that this server has for them";
      if (answer_ == Answer::kNone) {
        (void)co_await Send(503, {{"Content-Type", "application/json"}, {"Retry-After", "1"}},
                            ErrorBody("exhausted", busy));
      }
      co_return Err(ErrorCode::kExhausted, "{}", busy);
    }
    if (body.size() >= kTrusted) body.reserve(request_.content_length().value_or(0));
    body += bytes;
  }
  must_close_ = true;
  const std::string message = fmt::format("the body of this request may have {} bytes", limit);
  if (answer_ == Answer::kNone) (void)co_await SendError(413, "too_large", message);
  co_return Err(ErrorCode::kExhausted, "{}", message);
}

Task<bool> Connection::SkipBody() {
  for (;;) {
    auto piece = co_await NextPiece();
    if (!piece) co_return false;
    if (piece->empty()) co_return true;
  }
}

}  // namespace cella::http
