// What a caller asks to be run. The command line, the HTTP server and the package all fill in a RunSpec. Plain values.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cella {

struct Block {
  std::string language;  // a name or an alias; empty: by file name, by shebang, else Python
  std::string code;
};

enum class RunAs {
  kCell,     // of a session: the last expression is the value, and variables stay
  kProgram,  // a program of its own: __main__, arguments, an exit code; no value and no state
};

// Why a run is to end early. The order is the order of strength within equal rank; see run/stop.h.
enum class StopReason {
  kInterrupt,   // the code may catch it and go on
  kCancel,      // the caller cancelled the run
  kClientGone,  // the client closed its connection, and asked for this
  kClosing,     // the session is closing
  kTimeout,
  kCpuTime,
  kMemory,
  kProcesses,
};

// What an editor asks about code.
enum class CodeQuestion { kComplete, kInspect, kIsComplete };

struct InputFile {
  std::string name;  // in the workspace
  std::string content;
  bool executable = false;
};

// A value that the code gets as a variable, without passing through source text.
struct Variable {
  enum class Kind { kText, kBytes, kJson };
  std::string name;
  Kind kind = Kind::kText;
  std::string data;  // UTF-8, bytes, or JSON text
};

struct RunSpec {
  std::string id;             // "run_…"; empty: the session makes one
  std::vector<Block> blocks;  // run in order; the first block that fails ends the run
  RunAs as = RunAs::kCell;
  // Of a program: the name of the code's file (or of a workspace file to run), its directory and its arguments.
  std::string file;
  std::string cwd;         // as the guest sees it; relative: to the workspace; empty: the workspace
  bool runs_file = false;  // `file` is in the workspace already, and the code of the block is empty
  std::vector<std::string> args;
  std::optional<std::chrono::nanoseconds> timeout;  // empty: the policy's
  std::optional<std::string> stdin_text;
  int stdin_fd = -1;                // borrowed; what a program reads when there is no stdin_text
  bool answers_input = false;       // the caller answers input requests
  std::vector<InputFile> files;     // written into the workspace before the first block
  std::string out_dir;              // changed files are copied there; empty: they are not
  bool list_files = true;           // report what changed in the workspace
  std::vector<Variable> variables;  // assigned before the first block, whose language must keep state
};

}  // namespace cella
