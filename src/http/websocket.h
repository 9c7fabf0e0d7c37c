// A WebSocket after its handshake (RFC 6455). One task may receive while others send; sends are whole messages, in the
// order of the calls. Belongs to the exchange that made it and must not outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "async/task.h"
#include "base/result.h"

namespace cella::http {

struct WebSocketOptions {
  uint64_t max_message = uint64_t{1} << 20;  // bytes of one received message, all fragments together
  std::string protocol = {};                 // the subprotocol to choose if the client offers it; none when empty
};

class WebSocket {
 public:
  enum class Kind { kText, kBinary };
  struct Message {
    Kind kind = Kind::kText;
    std::string data;  // kText: valid UTF-8
  };

  virtual ~WebSocket() = default;

  // The next message; pings are answered on the way. kClosed when the peer closed or is gone; a peer that breaks the
  // protocol or sends too much is told so by the close code first.
  virtual async::Task<Result<Message>> Receive() = 0;
  virtual async::Task<Status> Send(std::string_view text) = 0;
  virtual async::Task<Status> SendBinary(std::string_view bytes) = 0;
  virtual async::Task<Status> Ping() = 0;
  // Sends a close frame once; the second call and every Send after it do nothing. 1000 is the ordinary end.
  virtual async::Task<void> Close(uint16_t code, std::string_view reason) = 0;

  // When anything was last received, a pong included: for deciding that a silent peer is gone.
  virtual async::TimePoint last_heard() const = 0;
};

}  // namespace cella::http
