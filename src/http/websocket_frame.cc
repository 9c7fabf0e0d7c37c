#include "http/websocket_frame.h"

#include <openssl/evp.h>

#include "base/text.h"
#include "http/target.h"

namespace cella::http {
namespace {

constexpr size_t kMaxControl = 125;

uint64_t BigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

bool IsKnown(unsigned opcode) { return opcode <= 2 || (opcode >= 8 && opcode <= 10); }

}  // namespace

Result<std::optional<FrameHeader>> ParseFrameHeader(std::string_view bytes) {
  if (bytes.size() < 2) return std::nullopt;
  const auto first = static_cast<unsigned char>(bytes[0]), second = static_cast<unsigned char>(bytes[1]);
  if ((first & 0x70) != 0) return Err(ErrorCode::kInvalid, "a reserved bit is set");
  if (!IsKnown(first & 0x0f)) return Err(ErrorCode::kInvalid, "an unknown opcode");
  if ((second & 0x80) == 0) return Err(ErrorCode::kInvalid, "a frame without a mask");

  FrameHeader header;
  header.is_final = (first & 0x80) != 0;
  header.opcode = static_cast<Opcode>(first & 0x0f);
  header.length = second & 0x7f;
  const size_t extra = header.length == 126 ? 2 : header.length == 127 ? 8 : 0;
  if (IsControl(header.opcode) && (extra > 0 || !header.is_final)) {
    return Err(ErrorCode::kInvalid, "a control frame that is long or in pieces");
  }
  header.size = 2 + extra + header.mask.size();
  if (bytes.size() < header.size) return std::nullopt;
  if (extra > 0) {
    header.length = BigEndian(bytes.substr(2, extra));
    const uint64_t least = extra == 2 ? 126 : 65536;
    if (header.length < least || header.length >> 63 != 0) return Err(ErrorCode::kInvalid, "a length in a wrong form");
  }
  bytes.copy(header.mask.data(), header.mask.size(), 2 + extra);
  return header;
}

void Unmask(std::span<char> bytes, const std::array<char, 4>& mask, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ mask[(offset + i) % 4]);
}

EncodedHeader EncodeFrameHeader(Opcode opcode, uint64_t length) {
  EncodedHeader header = {};
  header.bytes[0] = static_cast<char>(0x80 | static_cast<unsigned>(opcode));
  const size_t extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  header.bytes[1] = static_cast<char>(extra == 0 ? length : extra == 2 ? 126 : 127);
  for (size_t i = 0; i < extra; ++i) header.bytes[2 + i] = static_cast<char>(length >> (8 * (extra - 1 - i)));
  header.size = 2 + extra;
  return header;
}

std::string EncodeClose(uint16_t code, std::string_view reason) {
  reason = reason.substr(0, kMaxControl - 2);
  reason.remove_suffix(IncompleteUtf8Tail(reason));
  std::string payload = {static_cast<char>(code >> 8), static_cast<char>(code)};
  payload += reason;
  return payload;
}

Result<uint16_t> ParseClose(std::string_view payload) {
  constexpr uint16_t kNoCode = 1005;
  if (payload.empty()) return kNoCode;
  if (payload.size() == 1) return Err(ErrorCode::kInvalid, "half a close code");
  const auto code = static_cast<uint16_t>(BigEndian(payload.substr(0, 2)));
  const bool allowed =
      (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
  if (!allowed) return Err(ErrorCode::kInvalid, "the close code {}", code);
  if (!IsUtf8(payload.substr(2))) return Err(ErrorCode::kInvalid, "a close reason that is not UTF-8");
  return code;
}

std::optional<std::string> AcceptKey(std::string_view key) {
  constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  constexpr size_t kKeySize = 24;  // 16 bytes in base64
  unsigned char decoded[kKeySize];
  const auto* text = reinterpret_cast<const unsigned char*>(key.data());
  if (key.size() != kKeySize || !key.ends_with("==") || EVP_DecodeBlock(decoded, text, kKeySize) < 0) {
    return std::nullopt;
  }
  const std::string input = std::string(key) + std::string(kGuid);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(input.data(), input.size(), digest, &size, EVP_sha1(), nullptr) != 1) return std::nullopt;
  unsigned char encoded[2 * EVP_MAX_MD_SIZE];
  int length = EVP_EncodeBlock(encoded, digest, static_cast<int>(size));
  return std::string(reinterpret_cast<const char*>(encoded), static_cast<size_t>(length));
}

}  // namespace cella::http
