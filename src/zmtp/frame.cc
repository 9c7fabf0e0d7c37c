#include "zmtp/frame.h"

#include <algorithm>

namespace cella::zmtp {
namespace {

constexpr uint8_t kMore = 1;
constexpr uint8_t kLong = 2;
constexpr uint8_t kCommand = 4;
constexpr size_t kShortHead = 2;
constexpr size_t kLongHead = 9;
// A peer may announce any size; the buffer grows with what really comes.
constexpr size_t kReserve = size_t{1} << 16;

}  // namespace

void AppendFrame(std::string& out, std::string_view body, bool more, bool command) {
  uint8_t flags = (more ? kMore : 0) | (command ? kCommand : 0);
  if (body.size() > 255) flags |= kLong;
  out += static_cast<char>(flags);
  if ((flags & kLong) != 0) {
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(uint64_t{body.size()} >> shift);
  } else {
    out += static_cast<char>(body.size());
  }
  out += body;
}

Status FrameReader::BeginFrame() {
  const auto flags = static_cast<uint8_t>(head_[0]);
  frame_ = {.more = (flags & kMore) != 0, .command = (flags & kCommand) != 0, .body = {}, .skipped = 0};
  left_ = 0;
  for (size_t i = 1; i < head_.size(); ++i) left_ = left_ << 8 | static_cast<uint8_t>(head_[i]);
  head_.clear();
  in_body_ = true;
  if (frame_.command) {
    if (frame_.more) return Err(ErrorCode::kInvalid, "a command of more than one frame");
    if (left_ > bounds_.command_bytes) {
      return Err(ErrorCode::kInvalid, "a command of {} bytes; the bound is {}", left_, bounds_.command_bytes);
    }
  } else {
    if (++parts_ > bounds_.parts) return Err(ErrorCode::kInvalid, "a message of more than {} parts", bounds_.parts);
    if (left_ > bounds_.message_bytes - message_) {
      frame_.skipped = left_;
    } else {
      message_ += left_;
    }
  }
  if (frame_.skipped == 0) frame_.body.reserve(std::min<uint64_t>(left_, kReserve));
  return {};
}

Result<bool> FrameReader::Read(std::string_view& bytes, Frame& frame) {
  while (!in_body_) {
    if (bytes.empty()) return false;
    head_ += bytes.front();
    bytes.remove_prefix(1);
    const auto flags = static_cast<uint8_t>(head_[0]);
    if (flags > (kMore | kLong | kCommand)) return Err(ErrorCode::kInvalid, "a frame with reserved flags");
    if (head_.size() == ((flags & kLong) != 0 ? kLongHead : kShortHead)) TRY_VOID(BeginFrame());
  }
  const auto taken = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  if (frame_.skipped == 0) frame_.body.append(bytes.substr(0, taken));
  bytes.remove_prefix(taken);
  left_ -= taken;
  if (left_ > 0) return false;
  in_body_ = false;
  if (!frame_.command && !frame_.more) {
    message_ = 0;
    parts_ = 0;
  }
  frame = std::move(frame_);
  return true;
}

}  // namespace cella::zmtp
