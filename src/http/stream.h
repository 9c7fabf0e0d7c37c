// A connected socket, plain or with TLS: reading, writing, and being given up on. One reader and one writer at a time,
// which may overlap. Reads go through the reactor, writes are tried at once, so that a request costs one system call
// for each. Internal to http.
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/deadlines.h"
#include "http/tls.h"

namespace cella::http {

class Stream final : public Watched {
 public:
  // `fd` is non-blocking. Without `deadlines`, which outlives the stream, no deadline is enforced.
  static Result<std::unique_ptr<Stream>> Create(async::Loop& loop, UniqueFd fd, Deadlines* deadlines);
  ~Stream() override;

  int fd() { return socket_.native_handle(); }

  async::Task<Status> Handshake(TlsSession session);
  bool is_encrypted() const { return tls_.has_value(); }

  // When reads fail with ETIMEDOUT, until the next call of either.
  void AllowReadsUntil(async::TimePoint when) {
    read_expired_ = false;
    SetReadDeadline(when);
  }
  void AllowReadsForever() {
    read_expired_ = false;
    ClearReadDeadline();
  }
  // Bytes read; 0 at the end. kClosed when it broke or was killed; with ETIMEDOUT past AllowReadsUntil.
  async::Task<Result<size_t>> Read(std::span<char> buffer);

  using Parts = std::array<std::string_view, 3>;
  // All of it, in one system call where the socket takes it. `patience`: how long no byte may be taken; then the
  // stream is killed.
  async::Task<Status> Write(Parts parts, std::chrono::nanoseconds patience);
  // Tries once, for a last message whose delivery nothing depends on.
  void WriteNow(std::string_view bytes);

  // The peer closed its side or is gone, as far as the kernel knows now.
  bool PeerIsGone();

  // Ends the read that is on, as if nothing had come (kClosed).
  void CancelRead();
  // Nothing more is sent; the peer may still be read.
  void EndWriting();
  // Both directions end at once, for every task that waits. `Manner::kAbrupt` lets a TCP peer see a reset.
  enum class Manner { kPlain, kAbrupt };
  void Kill(Manner manner);
  bool is_killed() const { return killed_; }

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Stream(async::Loop& loop, Socket socket, Deadlines* deadlines);
  void OnReadDeadline() override;
  void OnWriteDeadline() override;

  Result<bool> TryWrite(Parts& parts, bool& progress);
  async::Task<Status> Wait(Socket::wait_type what);
  async::Task<Result<size_t>> ReadEncrypted(std::span<char> buffer);
  async::Task<std::optional<Error>> WhyAborted();

  Socket socket_;
  std::optional<TlsSession> tls_;
  bool tls_write_wants_read_ = false;
  bool killed_ = false;
  bool read_expired_ = false;
  bool read_cancelled_ = false;
  unsigned at_once_ = 0;
};

}  // namespace cella::http
