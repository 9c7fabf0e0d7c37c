// The WebSocket of a connection that was upgraded: uses its stream and what was read ahead. Internal to http.
#pragma once

#include <string>

#include "async/gate.h"
#include "http/body_budget.h"
#include "http/input_buffer.h"
#include "http/limits.h"
#include "http/stream.h"
#include "http/websocket.h"
#include "http/websocket_frame.h"

namespace cella::http {

class WebSocketConnection final : public WebSocket {
 public:
  WebSocketConnection(async::Loop& loop, Stream& stream, InputBuffer& input, const Limits& limits, BodyBudget& bodies,
                      uint64_t max_message);
  // Sends a close frame if none was sent, as far as that needs no waiting.
  ~WebSocketConnection() override;

  async::Task<Result<Message>> Receive() override;
  async::Task<Status> Send(std::string_view text) override { return SendFrame(Opcode::kText, text); }
  async::Task<Status> SendBinary(std::string_view bytes) override { return SendFrame(Opcode::kBinary, bytes); }
  async::Task<Status> Ping() override { return SendFrame(Opcode::kPing, {}); }
  async::Task<void> Close(uint16_t code, std::string_view reason) override;
  async::TimePoint last_heard() const override { return last_heard_; }

 private:
  async::Task<Status> SendFrame(Opcode opcode, std::string_view payload);
  async::Task<Status> ReadMore(size_t capacity);
  async::Task<Result<FrameHeader>> NextHeader();
  async::Task<Status> HandleControl(FrameHeader header);
  async::Task<Status> AppendPayload(FrameHeader header, Message& message);
  // Closes with the code of the reason, and returns the error.
  async::Task<Error> Break(uint16_t code, std::string why);

  Stream& stream_;
  InputBuffer& input_;
  const Limits& limits_;
  const uint64_t max_message_;
  async::Gate turn_;  // frames must not mix
  bool writing_ = false;
  bool said_goodbye_ = false;
  bool in_message_ = false;
  BodyBudget::Share held_;  // of the message that was received last
  size_t checked_ = 0;      // its bytes that are whole characters
  async::TimePoint last_heard_ = async::Clock::now();
};

}  // namespace cella::http
