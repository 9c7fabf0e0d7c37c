#include "zmtp/peer.h"

#include <algorithm>
#include <array>

namespace cella::zmtp {
namespace {

constexpr size_t kGreetingSize = 64;
constexpr size_t kSignatureSize = 10;
constexpr size_t kMajorAt = 10, kMinorAt = 11, kMechanismAt = 12;
constexpr size_t kMechanismSize = 20;
constexpr size_t kMaxPingContext = 16;

std::string Greeting() {
  std::string greeting(kGreetingSize, '\0');
  greeting[0] = '\xff';
  greeting[kSignatureSize - 1] = '\x7f';
  greeting[kMajorAt] = 3;
  greeting[kMinorAt] = 1;
  greeting.replace(kMechanismAt, 4, "NULL");
  return greeting;
}

std::string Command(std::string_view name, std::string_view data) {
  std::string body(1, static_cast<char>(name.size()));
  body += name;
  body += data;
  std::string frame;
  AppendFrame(frame, body, false, true);
  return frame;
}

void AppendProperty(std::string& out, std::string_view name, std::string_view value) {
  out += static_cast<char>(name.size());
  out += name;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value.size() >> shift);
  out += value;
}

// For a sentence: names in commands are the peer's.
std::string Printable(std::string_view text) {
  std::string shown(text.substr(0, 40));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

bool CanTalk(SocketKind kind, std::string_view theirs) {
  if (kind == SocketKind::kSub) return theirs == "PUB" || theirs == "XPUB";
  return theirs == "ROUTER" || theirs == "DEALER" || theirs == "REP";
}

}  // namespace

Peer::Peer(PeerOptions options) : options_(std::move(options)), reader_(options_.bounds), output_(Greeting()) {}

Status Peer::TakeGreeting(std::string_view& bytes) {
  const size_t taken = std::min(bytes.size(), kGreetingSize - greeting_.size());
  greeting_ += bytes.substr(0, taken);
  bytes.remove_prefix(taken);
  // Each part is looked at as soon as it is there: a peer of another kind may never send 64 bytes.
  if (greeting_[0] != '\xff') return Err(ErrorCode::kUnsupported, "the peer does not speak ZMTP 3 (ZeroMQ 4)");
  if (greeting_.size() >= kSignatureSize && greeting_[kSignatureSize - 1] != '\x7f') {
    return Err(ErrorCode::kUnsupported, "the peer does not speak ZMTP 3 (ZeroMQ 4)");
  }
  if (greeting_.size() > kMajorAt && greeting_[kMajorAt] < 3) {
    return Err(ErrorCode::kUnsupported, "the peer speaks ZMTP {}; 3.0 or later (ZeroMQ 4) is needed",
               greeting_[kMajorAt] == 1 ? 2 : static_cast<int>(greeting_[kMajorAt]));
  }
  if (greeting_.size() < kGreetingSize) return {};
  minor_ = greeting_[kMajorAt] > 3 ? 1 : greeting_[kMinorAt];
  std::string_view mechanism = std::string_view(greeting_).substr(kMechanismAt, kMechanismSize);
  mechanism = mechanism.substr(0, mechanism.find('\0'));
  if (mechanism != "NULL") {
    return Err(ErrorCode::kUnsupported, "the peer wants the security mechanism '{}'; only NULL is supported",
               Printable(mechanism));
  }
  std::string properties;
  AppendProperty(properties, "Socket-Type", options_.kind == SocketKind::kSub ? "SUB" : "DEALER");
  if (options_.kind == SocketKind::kDealer) AppendProperty(properties, "Identity", options_.identity);
  output_ += Command("READY", properties);
  state_ = State::kHandshake;
  return {};
}

Status Peer::TakeReady(std::string_view properties) {
  std::string_view theirs;
  while (!properties.empty()) {
    const size_t name_size = static_cast<uint8_t>(properties[0]);
    if (properties.size() < 1 + name_size + 4) return Err(ErrorCode::kInvalid, "the peer's READY is cut short");
    const std::string_view name = properties.substr(1, name_size);
    properties.remove_prefix(1 + name_size);
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<uint8_t>(properties[i]);
    properties.remove_prefix(4);
    if (size > properties.size()) return Err(ErrorCode::kInvalid, "the peer's READY is cut short");
    constexpr std::string_view kSocketType = "socket-type";
    const bool same =
        std::ranges::equal(name, kSocketType, {}, [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
    if (same) theirs = properties.substr(0, size);
    properties.remove_prefix(size);
  }
  if (!CanTalk(options_.kind, theirs)) {
    return Err(ErrorCode::kInvalid, "the peer is a {} socket, which cannot talk to a {} socket",
               theirs.empty() ? "nameless" : Printable(theirs), options_.kind == SocketKind::kSub ? "SUB" : "DEALER");
  }
  state_ = State::kReady;
  if (options_.kind == SocketKind::kSub) Subscribe();
  return {};
}

// To everything.
void Peer::Subscribe() {
  if (minor_ >= 1) {
    output_ += Command("SUBSCRIBE", "");
  } else {
    AppendFrame(output_, "\x01", false);
  }
}

Status Peer::TakeCommand(std::string_view body) {
  const size_t name_size = body.empty() ? 0 : static_cast<uint8_t>(body[0]);
  if (name_size == 0 || body.size() < 1 + name_size) return Err(ErrorCode::kInvalid, "a command without a name");
  const std::string_view name = body.substr(1, name_size);
  std::string_view data = body.substr(1 + name_size);
  if (name == "ERROR") {
    const size_t size = data.empty() ? 0 : static_cast<uint8_t>(data[0]);
    return Err(ErrorCode::kUnsupported, "the peer refused the connection: {}",
               Printable(data.substr(data.empty() ? 0 : 1, size)));
  }
  if (state_ == State::kHandshake) {
    if (name == "READY") return TakeReady(data);
    return Err(ErrorCode::kInvalid, "the peer sent '{}' instead of READY", Printable(name));
  }
  if (name == "PING" && data.size() >= 2) {
    output_ += Command("PONG", data.substr(2, kMaxPingContext));  // behind a time to live
  }
  return {};  // others may come in later versions
}

Status Peer::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (state_ == State::kGreeting) {
      TRY_VOID(TakeGreeting(bytes));
      continue;
    }
    Frame frame;
    TRY(const bool complete, reader_.Read(bytes, frame));
    if (!complete) return {};
    if (frame.command) {
      TRY_VOID(TakeCommand(frame.body));
      continue;
    }
    if (state_ != State::kReady) return Err(ErrorCode::kInvalid, "the peer sent a message instead of READY");
    message_.parts.push_back(std::move(frame.body));
    message_.skipped += frame.skipped;
    if (!frame.more) messages_.push_back(std::exchange(message_, {}));
  }
  return {};
}

std::optional<Message> Peer::Next() {
  if (messages_.empty()) return std::nullopt;
  Message message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

std::string Peer::Encode(const std::vector<std::string>& parts) {
  std::string bytes;
  for (size_t i = 0; i < parts.size(); ++i) AppendFrame(bytes, parts[i], i + 1 < parts.size());
  return bytes;
}

}  // namespace cella::zmtp
