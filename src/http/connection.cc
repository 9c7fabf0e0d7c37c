#include "http/connection.h"

#include <charconv>

#include <boost/asio/this_coro.hpp>

namespace cella::http {

namespace asio = boost::asio;
using async::Clock;
using async::Task;

namespace {

constexpr auto kLastReads = std::chrono::seconds(2);
constexpr uint64_t kLastBytes = uint64_t{1} << 20;

}  // namespace

Connection::Connection(ConnectionContext& context, std::unique_ptr<Stream> stream, Peer peer)
    : context_(context), stream_(std::move(stream)), peer_(std::move(peer)), body_(context.bodies) {}

Connection::~Connection() = default;

void Connection::CloseIfIdle() {
  if (idle_) stream_->CancelRead();
}

Task<void> Connection::Serve(const Tls* tls) {
  co_await asio::this_coro::throw_if_cancelled(false);
  if (tls != nullptr) {
    stream_->AllowReadsUntil(Clock::now() + context_.limits.header_time);
    auto session = TlsSession::Accept(*tls, stream_->fd());
    if (!session) co_return;
    Status shaken = co_await stream_->Handshake(std::move(*session));
    if (!shaken) co_return;
  }
  for (;;) {
    bool got = co_await ReadHead();
    if (!got) break;
    co_await RunHandler();
    if (stream_->is_killed() || answer_ == Answer::kUpgraded || !keeps_alive_ || must_close_) break;
    bool skipped = co_await SkipBody();
    if (!skipped) break;
    input_.Shrink();
    request_.Shrink();
  }
  co_await LetPeerFinish();
}

// A close with unread bytes resets the connection, and the reset overtakes the answer with the reason. So the peer is
// read a little longer, and what it sends is dropped.
Task<void> Connection::LetPeerFinish() {
  if (stream_->is_killed() || peer_ended_) co_return;
  const bool unread = must_close_ || !request_.parser().is_done();
  if (unread || stream_->is_encrypted()) stream_->EndWriting();
  if (!unread) co_return;
  stream_->AllowReadsUntil(Clock::now() + kLastReads);
  for (uint64_t seen = 0; seen < kLastBytes;) {
    input_.Consume(input_.size());
    auto n = co_await stream_->Read(input_.Prepare(InputBuffer::kSmall));
    if (!n || *n == 0) co_return;
    seen += *n;
  }
}

Task<void> Connection::Refuse(int status, std::string_view code, std::string message) {
  must_close_ = true;
  answer_ = Answer::kNone;
  (void)co_await SendError(status, code, message);
}

// 0: more must be read.
Result<size_t> Connection::FindWholeHead(size_t& looked_at) {
  // Some old clients send an empty line behind a body.
  while (input_.bytes().starts_with("\r\n")) {
    input_.Consume(2);
    looked_at = 0;
  }
  TRY(size_t length, FindHead(input_.bytes(), looked_at));
  const size_t limit = context_.limits.header_bytes;
  if (length > limit || (length == 0 && input_.size() >= limit)) {
    return Err(ErrorCode::kExhausted, "the head of a request may have {} bytes", limit);
  }
  return length;
}

Task<bool> Connection::ReadHead() {
  const Limits& limits = context_.limits;
  has_request_ = false;
  size_t looked_at = 0;
  bool begun = requests_ == 0;  // the first head has its time from the start, as if its first byte had come
  stream_->AllowReadsUntil(Clock::now() + (begun ? limits.header_time : limits.idle));
  for (;;) {
    auto length = FindWholeHead(looked_at);
    if (!length) {
      const bool too_large = length.error().code == ErrorCode::kExhausted;
      co_await Refuse(too_large ? 431 : 400, too_large ? "too_large" : "bad_request", length.error().message);
      co_return false;
    }
    if (*length > 0) {
      bool good = co_await TakeHead(*length);
      co_return good;
    }
    if (!begun && !input_.empty()) {
      begun = true;
      stream_->AllowReadsUntil(Clock::now() + limits.header_time);
    }
    idle_ = input_.empty();
    if (idle_ && context_.draining) co_return false;
    const size_t capacity = input_.size() < InputBuffer::kSmall ? InputBuffer::kSmall : limits.header_bytes;
    auto n = co_await stream_->Read(input_.Prepare(capacity));
    idle_ = false;
    if (!n || *n == 0) {
      peer_ended_ = n.has_value();
      const bool too_slow = !n && n.error().sys_errno == ETIMEDOUT && !input_.empty();
      if (too_slow) co_await Refuse(408, "timeout", "the head of the request took too long");
      co_return false;
    }
    input_.Commit(*n);
  }
}

Task<bool> Connection::TakeHead(size_t length) {
  stream_->AllowReadsForever();
  Status parsed = request_.Parse(input_.bytes().substr(0, length));
  input_.Consume(length);
  ++requests_;
  has_request_ = true;
  answer_ = Answer::kNone;
  length_left_ = body_read_ = piece_ = 0;
  continue_sent_ = keeps_alive_ = false;
  if (!parsed) {
    const Error& error = parsed.error();
    const bool unsupported = error.code == ErrorCode::kUnsupported;
    const int status = !unsupported ? 400 : request_.header("transfer-encoding") ? 501 : 417;
    co_await Refuse(status, unsupported ? "unsupported" : "bad_request", "malformed request: " + error.message);
    co_return false;
  }
  if (request_.target().has_escaped_slash() && !context_.handler.AcceptsEscapedSlash(request_)) {
    co_await Refuse(400, "bad_request", "malformed request: the path has an escaped slash");
    co_return false;
  }
  co_return true;
}

Task<void> Connection::RunHandler() {
  bool failed = false;
  try {
    co_await context_.handler.Handle(*this);
  } catch (...) {
    failed = true;  // of a library below the handler: what it says is for a log, not for a client
  }
  if (answer_ == Answer::kNone && !stream_->is_killed()) {
    (void)co_await SendError(500, "internal", failed ? "the server failed" : "the server did not answer");
  } else if (answer_ == Answer::kBegun) {
    Abort();
  }
  body_.GiveBack();
}

bool Connection::BodyIsEasyToSkip() const {
  constexpr uint64_t kEasy = uint64_t{64} << 10;
  if (request_.parser().is_done()) return true;
  if (request_.expects_continue() && !continue_sent_) return false;  // it may come, or not
  auto length = request_.content_length();
  return length && *length - body_read_ <= kEasy;
}

ResponseHead Connection::MakeHead(int status, Headers headers, Framing framing, uint64_t length) {
  const Limits& limits = context_.limits;
  const bool last = limits.requests_per_connection > 0 && requests_ >= limits.requests_per_connection;
  keeps_alive_ = !must_close_ && !last && !context_.draining && framing != Framing::kUntilClose &&
                 request_.keeps_alive() && BodyIsEasyToSkip();
  After after = After::kClose;
  if (keeps_alive_) after = request_.is_http_1_0() ? After::kKeepAliveOfHttp10 : After::kKeepAlive;
  return {.status = status, .headers = headers, .framing = framing, .length = length, .after = after};
}

Task<Status> Connection::WriteParts(Stream::Parts parts) {
  Status written = co_await stream_->Write(parts, context_.limits.write_stall);
  // Half an answer went out: nothing can follow it.
  if (!written) Abort();
  co_return written;
}

Task<Status> Connection::Send(int status, Headers headers, std::string_view body) {
  if (answer_ != Answer::kNone) co_return Err(ErrorCode::kInvalid, "the request was answered before");
  const Framing framing = StatusHasBody(status) ? Framing::kLength : Framing::kNone;
  FormatHead(MakeHead(status, headers, framing, body.size()), context_.date.Now(), out_);
  answer_ = Answer::kComplete;
  const bool silent = framing == Framing::kNone || (has_request_ && request_.is_head());
  Status written = co_await WriteParts({out_, silent ? std::string_view() : body, {}});
  co_return written;
}

Task<Status> Connection::Begin(int status, Headers headers) {
  if (answer_ != Answer::kNone) co_return Err(ErrorCode::kInvalid, "the request was answered before");
  framing_ = request_.is_http_1_0() ? Framing::kUntilClose : Framing::kChunked;
  if (!StatusHasBody(status)) framing_ = Framing::kNone;
  for (const Header& header : headers) {
    if (!EqualsIgnoringCase(header.name, "content-length") || framing_ == Framing::kNone) continue;
    const char* end = header.value.data() + header.value.size();
    if (std::from_chars(header.value.data(), end, length_left_).ptr != end) {
      co_return Err(ErrorCode::kInvalid, "the Content-Length of an answer is not a number");
    }
    framing_ = Framing::kLength;
  }
  FormatHead(MakeHead(status, headers, framing_, length_left_), context_.date.Now(), out_);
  if (request_.is_head()) {
    framing_ = Framing::kNone;
    length_left_ = 0;
  }
  answer_ = Answer::kBegun;
  // A stream may be open for hours: it gives back what a large request took, unless a piece of that is still looked at.
  if (piece_ == 0) input_.Shrink();
  Status written = co_await WriteParts({out_, {}, {}});
  co_return written;
}

Task<Status> Connection::Write(std::string_view bytes) {
  if (answer_ != Answer::kBegun) co_return Err(ErrorCode::kInvalid, "a write outside of Begin and End");
  if (bytes.empty() || framing_ == Framing::kNone) co_return Status{};
  if (framing_ == Framing::kLength) {
    if (bytes.size() > length_left_) {
      Abort();
      co_return Err(ErrorCode::kInternal, "more was written than the answer's Content-Length");
    }
    length_left_ -= bytes.size();
  }
  char size[20];
  Stream::Parts parts = {std::string_view(), bytes, std::string_view()};
  if (framing_ == Framing::kChunked) {
    char* end = std::to_chars(size, size + 16, bytes.size(), 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    parts = {std::string_view(size, end), bytes, "\r\n"};
  }
  Status written = co_await WriteParts(parts);
  co_return written;
}

Task<Status> Connection::End() {
  if (answer_ != Answer::kBegun) co_return Err(ErrorCode::kInvalid, "an end without Begin");
  answer_ = Answer::kComplete;
  if (framing_ == Framing::kLength && length_left_ > 0) {
    Abort();
    co_return Err(ErrorCode::kInternal, "less was written than the answer's Content-Length");
  }
  if (framing_ != Framing::kChunked) co_return Status{};
  Status written = co_await WriteParts({"0\r\n\r\n", {}, {}});
  co_return written;
}

Task<bool> Connection::Disconnected() {
  constexpr size_t kMaxAhead = size_t{16} << 10;
  constexpr auto kPause = std::chrono::milliseconds(250);
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!peer_ended_ && !stream_->is_killed()) {
    if (input_.size() >= kMaxAhead) {
      // It sends ahead more than we keep, so its end cannot be read: ask now and then.
      if (stream_->PeerIsGone()) break;
      bool slept = co_await async::SleepUntil(Clock::now() + kPause);
      if (!slept) co_return false;
      continue;
    }
    auto n =
        co_await stream_->Read(input_.Prepare(input_.size() < InputBuffer::kSmall ? InputBuffer::kSmall : kMaxAhead));
    if (!n && n.error().sys_errno == ECANCELED) co_return false;
    if (!n || *n == 0) break;
    input_.Commit(*n);
  }
  peer_ended_ = true;
  co_return true;
}

}  // namespace cella::http
