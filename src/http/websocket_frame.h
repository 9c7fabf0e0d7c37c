// Frames of a WebSocket as bytes (RFC 6455, section 5), and the key of its handshake. Pure functions. Internal to http.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::http {

enum class Opcode : uint8_t { kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

inline bool IsControl(Opcode opcode) { return static_cast<uint8_t>(opcode) >= 8; }

struct FrameHeader {
  bool is_final = false;
  Opcode opcode = Opcode::kText;
  uint64_t length = 0;  // of the payload
  std::array<char, 4> mask = {};
  size_t size = 0;  // of the header itself
};

// The header of a client's frame; nothing when more bytes are needed. An error breaks the protocol: no mask, a reserved
// bit or opcode, a control frame that is long or in pieces, a length not in its shortest form.
Result<std::optional<FrameHeader>> ParseFrameHeader(std::string_view bytes);

// `offset`: where in the payload `bytes` begin.
void Unmask(std::span<char> bytes, const std::array<char, 4>& mask, uint64_t offset);

// A server's frame header, whole and unmasked.
struct EncodedHeader {
  std::array<char, 10> bytes;
  size_t size;
  std::string_view view() const { return {bytes.data(), size}; }
};
EncodedHeader EncodeFrameHeader(Opcode opcode, uint64_t length);

// The payload of a close frame; a reason that is too long is cut at a character's end.
std::string EncodeClose(uint16_t code, std::string_view reason);
// The code of one that was received: 1005 when it has none. An error: one that no peer may send, or a bad reason.
Result<uint16_t> ParseClose(std::string_view payload);

// The answer to a Sec-WebSocket-Key; nothing when that is not 16 bytes in base64.
std::optional<std::string> AcceptKey(std::string_view key);

}  // namespace cella::http
