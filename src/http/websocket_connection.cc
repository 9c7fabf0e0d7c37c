#include "http/websocket_connection.h"

#include <boost/asio/this_coro.hpp>

#include "base/text.h"
#include "http/target.h"

namespace cella::http {

namespace asio = boost::asio;
using async::Clock;
using async::Task;

namespace {

constexpr uint16_t kGoingAway = 1001, kProtocolError = 1002, kBadText = 1007, kTooBig = 1009, kTryLater = 1013;
constexpr size_t kPayloadBuffer = size_t{64} << 10;

}  // namespace

WebSocketConnection::WebSocketConnection(async::Loop& loop, Stream& stream, InputBuffer& input, const Limits& limits,
                                         BodyBudget& bodies, uint64_t max_message)
    : stream_(stream), input_(input), limits_(limits), max_message_(max_message), turn_(loop, 1), held_(bodies) {}

WebSocketConnection::~WebSocketConnection() {
  if (said_goodbye_ || writing_) return;
  const std::string payload = EncodeClose(kGoingAway, "");
  stream_.WriteNow(std::string(EncodeFrameHeader(Opcode::kClose, payload.size()).view()) + payload);
}

Task<Status> WebSocketConnection::SendFrame(Opcode opcode, std::string_view payload) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto pass = co_await turn_.Enter();
  if (said_goodbye_) co_return Err(ErrorCode::kClosed, "the WebSocket is closed");
  said_goodbye_ = opcode == Opcode::kClose;
  const EncodedHeader header = EncodeFrameHeader(opcode, payload.size());
  writing_ = true;
  Status written = co_await stream_.Write({header.view(), payload, {}}, limits_.write_stall);
  // Half a frame went out: whatever came next would be taken for its rest.
  if (!written) stream_.Kill(Stream::Manner::kAbrupt);
  writing_ = !written;
  co_return written;
}

Task<void> WebSocketConnection::Close(uint16_t code, std::string_view reason) {
  const std::string payload = EncodeClose(code, reason);
  (void)co_await SendFrame(Opcode::kClose, payload);
}

Task<Error> WebSocketConnection::Break(uint16_t code, std::string why) {
  co_await Close(code, why);
  co_return Error{ErrorCode::kClosed, "the client broke the WebSocket protocol: " + why, 0};
}

Task<Status> WebSocketConnection::ReadMore(size_t capacity) {
  // Between messages a peer may be silent for as long as it likes; within one it must go on.
  if (in_message_ || !input_.empty()) {
    stream_.AllowReadsUntil(Clock::now() + limits_.body_stall);
  } else {
    stream_.AllowReadsForever();
    input_.Shrink();
  }
  auto n = co_await stream_.Read(input_.Prepare(capacity));
  CO_TRY(size_t count, std::move(n));
  if (count == 0) co_return Err(ErrorCode::kClosed, "the client left");
  input_.Commit(count);
  last_heard_ = Clock::now();
  co_return Status{};
}

Task<Result<FrameHeader>> WebSocketConnection::NextHeader() {
  for (;;) {
    auto header = ParseFrameHeader(input_.bytes());
    if (!header) {
      Error error = co_await Break(kProtocolError, header.error().message);
      co_return std::unexpected(std::move(error));
    }
    if (*header) {
      input_.Consume((*header)->size);
      co_return **header;
    }
    Status read = co_await ReadMore(InputBuffer::kSmall);
    CO_TRY_VOID(read);
  }
}

Task<Status> WebSocketConnection::HandleControl(FrameHeader header) {
  while (input_.size() < header.length) {
    Status read = co_await ReadMore(InputBuffer::kSmall);
    CO_TRY_VOID(read);
  }
  std::string payload(input_.bytes().substr(0, header.length));
  input_.Consume(payload.size());
  Unmask(payload, header.mask, 0);
  if (header.opcode == Opcode::kPing) {
    // After our close frame there is nothing to send, but the answer to it is still awaited.
    if (!said_goodbye_) {
      Status answered = co_await SendFrame(Opcode::kPong, payload);
      CO_TRY_VOID(answered);
    }
  } else if (header.opcode == Opcode::kClose) {
    auto code = ParseClose(payload);
    if (!code) {
      Error error = co_await Break(kProtocolError, code.error().message);
      co_return std::unexpected(std::move(error));
    }
    (void)co_await SendFrame(Opcode::kClose, payload.substr(0, 2));
    co_return Err(ErrorCode::kClosed, "the client closed the WebSocket ({})", *code);
  }
  co_return Status{};
}

// Checks each piece as it comes: a message of megabytes would take too long at its end.
Task<Status> WebSocketConnection::AppendPayload(FrameHeader header, Message& message) {
  std::string& data = message.data;
  for (uint64_t done = 0; done < header.length;) {
    if (input_.empty()) {
      Status read =
          co_await ReadMore(header.length - done > InputBuffer::kSmall ? kPayloadBuffer : InputBuffer::kSmall);
      CO_TRY_VOID(read);
    }
    std::string_view bytes = input_.bytes().substr(0, header.length - done);
    if (!held_.Grow(bytes.size())) {
      Error error = co_await Break(kTryLater, "the messages of other clients take all the room that there is");
      co_return std::unexpected(std::move(error));
    }
    const size_t start = data.size();
    data += bytes;
    Unmask(std::span(data).subspan(start), header.mask, done);
    done += bytes.size();
    input_.Consume(bytes.size());
    if (message.kind != Kind::kText) continue;
    std::string_view fresh = std::string_view(data).substr(checked_);
    fresh.remove_suffix(IncompleteUtf8Tail(fresh));
    if (!IsUtf8(fresh)) {
      Error error = co_await Break(kBadText, "a text that is not UTF-8");
      co_return std::unexpected(std::move(error));
    }
    checked_ += fresh.size();
  }
  co_return Status{};
}

Task<Result<WebSocket::Message>> WebSocketConnection::Receive() {
  co_await asio::this_coro::throw_if_cancelled(false);
  Message message;
  in_message_ = false;
  held_.GiveBack();
  checked_ = 0;
  for (;;) {
    auto next = co_await NextHeader();
    CO_TRY(FrameHeader header, std::move(next));
    if (IsControl(header.opcode)) {
      Status handled = co_await HandleControl(header);
      CO_TRY_VOID(handled);
      continue;
    }
    const bool continues = header.opcode == Opcode::kContinuation;
    if (continues != in_message_) {
      Error error = co_await Break(kProtocolError, continues ? "a piece of no message" : "a message within another");
      co_return std::unexpected(std::move(error));
    }
    if (header.length > max_message_ - message.data.size()) {
      Error error = co_await Break(kTooBig, fmt::format("a message may have {} bytes", max_message_));
      co_return std::unexpected(std::move(error));
    }
    if (!continues) message.kind = header.opcode == Opcode::kText ? Kind::kText : Kind::kBinary;
    in_message_ = true;
    Status appended = co_await AppendPayload(header, message);
    CO_TRY_VOID(appended);
    if (!header.is_final) continue;
    in_message_ = false;
    if (message.kind == Kind::kText && checked_ < message.data.size()) {
      Error error = co_await Break(kBadText, "a text that is not UTF-8");
      co_return std::unexpected(std::move(error));
    }
    co_return message;
  }
}

}  // namespace cella::http
