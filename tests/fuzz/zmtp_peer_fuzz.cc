// Any bytes as a ZeroMQ peer: no crash, no bound exceeded, the same messages however the bytes are cut. What comes out
// is also read as messages of Jupyter.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "jupyter/json.h"
#include "jupyter/message.h"
#include "zmtp/peer.h"

namespace {

using namespace cella;

constexpr zmtp::Bounds kBounds = {.message_bytes = 1000, .parts = 8, .command_bytes = 100};

struct Reading {
  std::vector<std::vector<std::string>> messages;
  bool failed = false;
  bool operator==(const Reading&) const = default;
};

Reading Read(std::string_view bytes, size_t step) {
  zmtp::Peer peer({.kind = zmtp::SocketKind::kDealer, .identity = "me", .bounds = kBounds});
  jupyter::Signer signer("", "session", "user");
  Reading reading;
  while (!bytes.empty() && !reading.failed) {
    const size_t taken = std::min(step, bytes.size());
    reading.failed = !peer.Take(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    while (auto message = peer.Next()) {
      size_t size = 0;
      for (const std::string& part : message->parts) size += part.size();
      if (size > kBounds.message_bytes || message->parts.size() > kBounds.parts) std::abort();
      if (auto read = signer.Read(*message)) (void)jupyter::ParseObject(read->content);
      reading.messages.push_back(std::move(message->parts));
    }
  }
  return reading;
}

// Random bytes never get past a greeting and a handshake.
std::string Greeted(std::string_view bytes) {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = 3;
  greeting.replace(12, 4, "NULL");
  const std::string_view ready("\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER", 30);
  return greeting.append(ready).append(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& input : {std::string(bytes), Greeted(bytes)}) {
    if (Read(input, 1) != Read(input, input.size() + 1)) {
      (void)std::fputs("read differently in pieces\n", stderr);
      std::abort();
    }
  }
  return 0;
}
