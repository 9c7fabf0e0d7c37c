// A call from the guest to the host, and its answer. Everything in a call is the guest's claim.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cella::run {

// The way by which a call reaches the gate: a frame of the runner, or the socket that any process of the guest may use.
enum class CallDoor { kRunner, kSocket };

struct HostCall {
  uint64_t id = 0;    // the execution's own number, which the answer repeats
  std::string space;  // the namespace: "input", later "deps", "tools", "artifacts", "workflows"
  std::string operation;
  std::string arguments;  // JSON text, as the namespace defines it; of the socket: see calls/arguments.h
  CallDoor door = CallDoor::kRunner;
  // Shows the clients of the run what takes so long. May be called until the call is answered, and does nothing later.
  std::function<void(std::string_view line)> progress{};
};

struct HostError {
  std::string type;  // "CallRefused", "CallCancelled", or one of the namespace's
  std::string message;
};

struct HostReply {
  uint64_t id = 0;
  std::optional<std::string> value;  // JSON text, absent: null; for `input` a line, absent: the end of the file
  std::optional<HostError> error;
};

}  // namespace cella::run
