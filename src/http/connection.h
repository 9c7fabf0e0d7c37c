// One connection of a server: reads requests, has them handled one after the other, and is the Exchange of each.
// Internal to http; owned by the server's task that serves it.
#pragma once

#include <memory>
#include <string>

#include "http/body_budget.h"
#include "http/exchange.h"
#include "http/input_buffer.h"
#include "http/limits.h"
#include "http/response_head.h"
#include "http/stream.h"

namespace cella::http {

// What the connections of a server have in common.
struct ConnectionContext {
  async::Loop& loop;
  Handler& handler;
  Limits limits;
  BodyBudget bodies{limits.bodies};
  DateText date = {};
  bool draining = false;
};

class Connection final : public Exchange {
 public:
  Connection(ConnectionContext& context, std::unique_ptr<Stream> stream, Peer peer);
  ~Connection() override;

  // Until the connection is at its end.
  async::Task<void> Serve(const Tls* tls);

  // While nothing of a request has come.
  void CloseIfIdle();
  void Kill() { stream_->Kill(Stream::Manner::kPlain); }

  const Request& request() const override { return request_; }
  const Peer& peer() const override { return peer_; }
  async::Task<Result<std::string>> ReadBody(uint64_t limit) override;
  async::Task<Result<std::string_view>> ReadSome() override;
  async::Task<Status> Send(int status, Headers headers, std::string_view body) override;
  async::Task<Status> Begin(int status, Headers headers) override;
  async::Task<Status> Write(std::string_view bytes) override;
  async::Task<Status> End() override;
  void Abort() override { stream_->Kill(Stream::Manner::kAbrupt); }
  bool is_answered() const override { return answer_ != Answer::kNone; }
  bool is_connected() override { return !peer_ended_ && !stream_->PeerIsGone(); }
  async::Task<bool> Disconnected() override;
  async::Task<Result<std::unique_ptr<WebSocket>>> UpgradeToWebSocket(WebSocketOptions options) override;

 private:
  enum class Answer { kNone, kBegun, kComplete, kUpgraded };

  // False: there is none, and what was to be said about it is said.
  async::Task<bool> ReadHead();
  Result<size_t> FindWholeHead(size_t& looked_at);
  async::Task<bool> TakeHead(size_t length);
  async::Task<void> Refuse(int status, std::string_view code, std::string message);

  async::Task<void> RunHandler();
  async::Task<bool> SkipBody();
  async::Task<void> LetPeerFinish();

  async::Task<Result<std::string_view>> NextPiece();
  async::Task<Status> SendContinue();
  // What a failed read of the body means to the client; returns the error.
  async::Task<Error> FailBody(Error error);
  bool BodyIsEasyToSkip() const;

  ResponseHead MakeHead(int status, Headers headers, Framing framing, uint64_t length);
  async::Task<Status> WriteParts(Stream::Parts parts);

  ConnectionContext& context_;
  std::unique_ptr<Stream> stream_;
  const Peer peer_;
  InputBuffer input_;
  Request request_;
  std::string out_;  // the head of an answer
  uint64_t requests_ = 0;

  // Of the request at hand.
  BodyBudget::Share body_;
  Answer answer_ = Answer::kNone;
  Framing framing_ = Framing::kNone;
  uint64_t length_left_ = 0;  // kLength: what the head promised and is not yet written
  uint64_t body_read_ = 0;
  size_t piece_ = 0;  // of input_, given out by ReadSome and used up at the next call
  bool continue_sent_ = false;
  bool keeps_alive_ = false;

  bool has_request_ = false;  // else its head is not there yet, or could not be found
  bool must_close_ = false;   // what follows on this connection cannot be understood
  bool peer_ended_ = false;
  bool idle_ = true;
};

}  // namespace cella::http
