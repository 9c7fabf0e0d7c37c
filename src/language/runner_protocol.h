// What the supervisor and a runner say to each other (runners/README.md), as values. Everything that is decoded here
// comes from inside a guest: hostile until proven well-formed, and then still only what the guest claims.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cella/event.h"

namespace cella::language {

inline constexpr size_t kMaxFrameFromRunner = size_t{16} << 20;

enum class CheckpointMode { kAuto, kAlways, kOff };

// "auto", "always", "off".
std::string_view ToString(CheckpointMode mode);
std::optional<CheckpointMode> ParseCheckpointMode(std::string_view text);

struct RunnerConfiguration {
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;
  bool network = false;
  uint64_t value_limit = 0;
};

struct RunnerCell {
  std::string run;
  uint64_t number = 0;
  std::string code;
  std::string file;                       // empty: none
  std::optional<std::string> stdin_text;  // nothing: no input
  bool input = false;                     // somebody answers input requests
  CheckpointMode checkpoint = CheckpointMode::kAuto;
  uint32_t courtesy_ms = 0;  // how long the checkpoint may wait for the next request; 0: as the runner likes
};

// Payloads, without their length.
std::string EncodeConfigure(const RunnerConfiguration& configuration);
std::string EncodeRun(const RunnerCell& cell);
std::string EncodeInterrupt(const std::string& run);
std::string EncodeInputReply(const std::optional<std::string>& text);  // nothing: end of file
std::string EncodeRehearse();
std::string EncodeCheckpoint(const std::string& name);  // empty: the automatic one

enum class Question { kComplete, kInspect, kIsComplete };
std::string EncodeQuestion(Question question, std::string_view code, size_t cursor);

struct DoneFrame {
  enum class Status { kOk, kError, kExit, kInterrupted };
  std::string run;
  Status status = Status::kOk;
  int exit_code = 0;
  uint64_t displays_dropped = 0;
  double cpu_ms = 0;  // as the runner counts it
};

struct CheckpointFrame {
  std::string name;    // empty: the automatic one
  std::string status;  // "taken", "off", "skipped: reason"
};

// The answer to a question, as JSON text with its type.
struct AnswerFrame {
  std::string json;
};

// Frames that nobody here knows are an empty variant.
using RunnerFrame = std::variant<std::monostate, ValueEvent, DisplayEvent, ErrorEvent, InputRequestEvent, DoneFrame,
                                 CheckpointFrame, AnswerFrame>;

// kInvalid: not a frame.
Result<RunnerFrame> DecodeFrame(std::string_view payload);

}  // namespace cella::language
