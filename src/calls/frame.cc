#include "calls/frame.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cella::calls {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxName = 128;

uint32_t Number(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

void AppendNumber(std::string& to, size_t value) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(value >> shift & 0xff));
}

// It is shown in messages and in the audit.
bool IsName(std::string_view text) {
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, fits);
}

Result<std::string> Name(const Json& header, const char* key) {
  auto found = header.find(key);
  if (found == header.end() || !found->is_string()) return Err(ErrorCode::kInvalid, "a call needs '{}'", key);
  auto text = found->get<std::string>();
  if (!IsName(text)) {
    return Err(ErrorCode::kInvalid, "{}: 1 to {} letters, digits, '_', '.' and '-' are expected", key, kMaxName);
  }
  return text;
}

}  // namespace

Result<FrameSize> DecodePrefix(const std::array<char, kPrefixBytes>& prefix) {
  const FrameSize size{Number(prefix.data()), Number(prefix.data() + 4)};
  if (size.header > kMaxHeaderBytes) return Err(ErrorCode::kInvalid, "a header has at most {} bytes", kMaxHeaderBytes);
  if (size.body > kMaxBodyBytes) {
    return Err(ErrorCode::kInvalid, "the arguments of a call are limited to {} bytes: pass the name of a file",
               kMaxBodyBytes);
  }
  return size;
}

Result<run::HostCall> DecodeCall(std::string_view header, std::string body) {
  // At most kMaxHeaderBytes deep.
  const Json json = Json::parse(header, nullptr, false);
  if (!json.is_object()) return Err(ErrorCode::kInvalid, "the header of a call is a JSON object");
  run::HostCall call;
  TRY(call.space, Name(json, "space"));
  TRY(call.operation, Name(json, "operation"));
  call.arguments = std::move(body);
  call.door = run::CallDoor::kSocket;
  return call;
}

std::string EncodeReply(run::HostReply reply) {
  if (reply.value && reply.value->size() > kMaxBodyBytes) {
    reply.error = run::HostError{
        "CallRefused", fmt::format("the answer has {} bytes, and {} are the most", reply.value->size(), kMaxBodyBytes)};
  }
  Json header = Json::object();
  std::string body;
  if (reply.error) {
    header["error"] = {{"type", reply.error->type}, {"message", reply.error->message.substr(0, kMaxHeaderBytes / 2)}};
  } else {
    body = reply.value ? std::move(*reply.value) : "null";
  }
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string frame;
  frame.reserve(kPrefixBytes + text.size() + body.size());
  AppendNumber(frame, text.size());
  AppendNumber(frame, body.size());
  frame += text;
  frame += body;
  return frame;
}

}  // namespace cella::calls
