// A ZeroMQ socket with one peer: connects, connects again when the peer goes away, sends, and hands on what comes.
// Lives on the loop; Stop it before it is destroyed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/descriptor.h"
#include "async/task_group.h"
#include "zmtp/endpoint.h"
#include "zmtp/peer.h"

namespace cella::zmtp {

struct ConnectionBounds {
  size_t unsent_bytes = size_t{64} << 20;
  // From the connect to the end of the handshake.
  std::chrono::milliseconds handshake = std::chrono::seconds(5);
  // Between two attempts to connect: at first, at most before the first connection, and at most after it. Until the
  // first one a client waits for a peer that starts.
  std::chrono::milliseconds pause = std::chrono::milliseconds(1);
  std::chrono::milliseconds longest_first_pause = std::chrono::milliseconds(4);
  std::chrono::milliseconds longest_pause = std::chrono::milliseconds(100);
};

class Connection {
 public:
  struct Listener {
    std::function<void(Message)> on_message;
    std::function<void()> on_change;  // of ready() or refused()
  };

  Connection(async::Loop& loop, Endpoint endpoint, PeerOptions options, Listener listener,
             ConnectionBounds bounds = {});
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start();
  // Ends at once; what is not sent is dropped.
  async::Task<void> Stop();

  // The handshake is done.
  bool ready() const { return peer_ && peer_->ready(); }
  // How often the handshake was done.
  unsigned connects() const { return connects_; }
  // Why the peer is none to speak to: no more attempts are made.
  const std::optional<Error>& refused() const { return refused_; }

  // Queues the message where the peer is not connected, or slow. kExhausted: too much is queued.
  Status Send(const std::vector<std::string>& parts);

 private:
  async::Task<void> Run();
  async::Task<Status> Talk(UniqueFd socket);
  async::Task<Status> Receive();
  async::Task<void> Write();
  bool WriteSome();
  void HandOn();

  async::Loop& loop_;
  const Endpoint endpoint_;
  const PeerOptions options_;
  const Listener listener_;
  const ConnectionBounds bounds_;
  std::optional<Peer> peer_;  // while connected
  std::optional<async::Descriptor> socket_;
  std::string control_;  // greeting, commands: go before messages
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0;
  size_t written_ = 0;  // of the first unsent message
  bool writing_ = false;
  bool stopping_ = false;
  unsigned connects_ = 0;
  std::optional<Error> refused_;
  async::TaskGroup running_;
  async::TaskGroup writer_;
};

}  // namespace cella::zmtp
