// One conversation in ZMTP 3.0 or 3.1 without the socket: greeting, NULL handshake, messages, PING. The connecting
// side, as DEALER or SUB. Bytes of the peer go in, bytes for the peer and messages come out. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "zmtp/frame.h"

namespace cella::zmtp {

struct Message {
  std::vector<std::string> parts;
  uint64_t skipped = 0;  // bytes of parts beyond the bound; such a part is empty
};

enum class SocketKind { kDealer, kSub };

struct PeerOptions {
  SocketKind kind = SocketKind::kDealer;
  std::string identity;  // of a DEALER; the ROUTER addresses it by this. At most 255 bytes
  Bounds bounds = {};
};

class Peer {
 public:
  explicit Peer(PeerOptions options);

  // An Error: the peer is no ZeroMQ peer that this side can speak to, or it broke the protocol; the message says which.
  Status Take(std::string_view bytes);
  // True once messages can be sent.
  bool ready() const { return state_ == State::kReady; }

  // What is to be written to the peer.
  std::string TakeOutput() { return std::exchange(output_, {}); }
  // Complete messages of the peer, in order.
  std::optional<Message> Next();

  static std::string Encode(const std::vector<std::string>& parts);

 private:
  enum class State { kGreeting, kHandshake, kReady };

  Status TakeGreeting(std::string_view& bytes);
  Status TakeCommand(std::string_view body);
  Status TakeReady(std::string_view properties);
  void Subscribe();

  const PeerOptions options_;
  State state_ = State::kGreeting;
  std::string greeting_;  // of the peer, so far
  int minor_ = 0;         // of the peer's version
  FrameReader reader_;
  Message message_;  // so far
  std::deque<Message> messages_;
  std::string output_;
};

}  // namespace cella::zmtp
