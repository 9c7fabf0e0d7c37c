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
#include "cella/policy.h"
#include "cella/run.h"

namespace cella::runner {

inline constexpr size_t kMaxFrameFromRunner = size_t{16} << 20;

struct Configuration {
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;
  bool network = false;
  uint64_t value_limit = 0;
  uint64_t output_limit = 0;        // of each stream, for code in the application's process; 0: it is cut elsewhere
  bool assignments = false;         // a cell that ends with an assignment has its value
  std::vector<std::string> spaces;  // that the guest may call
};

// Of a fork that becomes a program instead of a runner.
struct Program {
  std::vector<std::string> argv;  // the interpreter, the file, its arguments
  std::vector<std::pair<std::string, std::string>> env;
  std::string cwd;
  std::vector<std::string> spaces;  // that the program may call
};

// Of a variable that the code finds. Exactly one of `data` and `file` counts.
struct Value {
  std::string name;
  Variable::Kind kind = Variable::Kind::kText;
  std::string data;  // text or JSON text
  std::string file;  // which holds the data, and is the runner's to remove; empty: `data` has it
};

struct Cell {
  std::string run;
  uint64_t number = 0;
  std::string code;
  std::string file;                       // empty: none
  std::optional<std::string> stdin_text;  // nothing: no input
  bool input = false;                     // the caller answers input requests
  CheckpointMode checkpoint = CheckpointMode::kAuto;
  std::vector<Value> variables;
  bool texts = false;        // the variables are texts by their names, which is what the runner of Bash reads
  std::string packages;      // where packages were added; empty: nowhere
  std::string mark;          // the token of marks in the text (executor/sandbox/marked_text.h); empty: none are wanted
  uint32_t courtesy_ms = 0;  // how long the checkpoint may wait for the next request; 0: as the runner likes
};

// "text", "bytes", "json".
std::string_view WordOf(Variable::Kind kind);

// Payloads, without their length.
std::string EncodeConfigure(const Configuration& configuration);
std::string EncodeProgram(const Program& program);
std::string EncodeRun(const Cell& cell);
std::string EncodeInterrupt(const std::string& run);
std::string EncodeCancel(const std::string& run);                      // to a runner that is no process to be killed
std::string EncodeInputReply(const std::optional<std::string>& text);  // nothing: end of file
std::string EncodeRehearse();
std::string EncodeCheckpoint(const std::string& name);  // empty: the automatic one

std::string EncodeQuestion(CodeQuestion question, std::string_view code, size_t cursor);

// A display, and the number of the mark before it in both output streams; 0: there is no mark.
struct DisplayFrame {
  DisplayEvent display;
  uint64_t mark = 0;
};

struct DoneFrame {
  enum class Status { kOk, kError, kExit, kInterrupted };
  std::string run;
  Status status = Status::kOk;
  int exit_code = 0;
  uint64_t displays_dropped = 0;
  double cpu_ms = 0;  // as the runner counts it
  bool lost = false;  // the variables are gone: the code goes on, and the next cell has new names
};

struct CheckpointFrame {
  std::string name;    // empty: the automatic one
  std::string status;  // "taken", "off", "skipped: reason"
};

// The answer to a question, as JSON text with its type.
struct AnswerFrame {
  std::string json;
};

// The program did not begin: its directory cannot be entered.
struct RefusedFrame {
  std::string path;
  int error = 0;  // errno
};

// Unknown frames are an empty variant. Output comes as frames where there are no pipes.
using Frame = std::variant<std::monostate, ValueEvent, DisplayFrame, ErrorEvent, InputRequestEvent, DoneFrame,
                           CheckpointFrame, AnswerFrame, RefusedFrame, OutputEvent, TruncatedEvent>;

// kInvalid: not a frame. A payload of more than kReadAtOnce bytes (base/json.h) belongs on a pool. Any thread.
Result<Frame> DecodeFrame(std::string_view payload);

}  // namespace cella::runner
