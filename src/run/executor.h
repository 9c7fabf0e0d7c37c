// The ports between the core and the places where code runs. An Executor opens Guests, a Guest begins Executions, and
// an Execution is one block in progress. An Executor outlives its Guests, a Guest its Execution. All live on the loop.
// How the guest's code ended is in RunFacts; an Error means that nothing ran, or that we failed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "cella/event.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "cella/run.h"
#include "os/directory.h"
#include "run/capability.h"
#include "run/judge.h"
#include "run/machine.h"
#include "run/output.h"
#include "run/stop.h"

namespace cella::run {

// A client whose own choice of packages runs in an interpreter that guests are forked from. Other clients do not share
// that interpreter.
struct Tenant {
  std::string client{};                    // empty: every client may share it
  std::optional<uint64_t> interpreters{};  // the most that are started for this client; absent: not bounded
};

// What a guest is opened with.
struct GuestSpec : SessionSpec {
  GuestSpec() = default;
  GuestSpec(SessionSpec spec) : SessionSpec(std::move(spec)) {}  // NOLINT(google-explicit-constructor): it is one

  Tenant tenant;
  std::vector<std::string> spaces;  // namespaces that processes of the guest may call, through a CallSocket
  // Gets lines for people while the place is made: an image is fetched. May be empty; not called after Open.
  std::function<void(const std::string& line)> progress;
};

// One block of a run, handed to a guest. What it refers to outlives the execution.
struct BlockTurn {
  const RunSpec& run;
  const Block& block;
  uint64_t number = 0;  // of the session's blocks, from 1
  Limits limits;        // with the time that is left for this block
  std::optional<std::string> stdin_text = std::nullopt;
  bool first = true;  // of the run
  bool last = true;   // of the run, unless one fails before
  bool calls = true;  // a namespace of GuestSpec::spaces has something to call
};

enum class Progress {
  kNothing,
  kStarted,     // the guest has begun the code
  kKilledHere,  // init, the cgroup or the engine killed the code; the reason will be in the facts
  kAnswered,    // the guest reported the end of the code
  kGone,        // the code's process has ended, or its place has
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Waits for the guest and hands on what it emits, a bounded amount per call. Returns at `until` at the latest.
  virtual async::Task<Progress> Advance(TimePoint until, Output& out) = 0;
  // Ends the Advance that is on, or the next one.
  virtual void Wake() = 0;
  // Takes effect without waiting.
  virtual void Send(StopStep step) = 0;
  // To a call that was handed on, by its id.
  virtual void Answer(HostReply /*reply*/) {}  // NOLINT(performance-unnecessary-value-param): overriders keep it
  // Asked while an interrupt waits for the start of the code.
  virtual bool HasStarted() { return true; }
  // The reader of this stream is gone: the guest gets a closed pipe.
  virtual void CloseOutput(Stream) {}
  // Processor time of this block so far; absent where the supervisor does not count it.
  virtual std::optional<std::chrono::nanoseconds> CpuUsed() const { return std::nullopt; }
  // After kAnswered, kGone or kGiveUp: waits until every signal that was sent has been delivered, hands on the rest of
  // the output and reads the counters. An Error is ours: nothing ran, and the execution has cleaned up.
  virtual async::Task<Result<RunFacts>> Finish(Output& out) = 0;
};

// What a guest uses now. Absent: nothing counts it.
struct GuestUsage {
  bool alive = false;                             // its place is there, and so is its interpreter
  std::optional<uint64_t> memory = std::nullopt;  // bytes
  std::optional<std::chrono::nanoseconds> cpu = std::nullopt;
  std::optional<uint64_t> processes = std::nullopt;  // without Cella's own
};

// What a block did to the state of the session.
struct StateReport {
  StateAfter state = StateAfter::kNone;
  std::string checkpoint = "off";  // what a rollback of the next run returns to
};

// Optional interfaces of a guest.
class Checkpoints {
 public:
  virtual ~Checkpoints() = default;
  virtual async::Task<Status> Save(const std::string& name) = 0;
  virtual async::Task<Status> Rollback(const std::string& name) = 0;
  virtual Status Drop(const std::string& name) = 0;
  virtual std::vector<std::string> List() const = 0;
};

class Assistant {
 public:
  virtual ~Assistant() = default;
  // JSON text as in runners/README.md. kUnsupported: this language has no answer.
  virtual async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                               size_t cursor) = 0;
};

class Resettable {
 public:
  virtual ~Resettable() = default;
  // Forgets all variables and ends all processes; files stay.
  virtual async::Task<Status> Reset() = 0;
};

// The interpreter for which packages are installed. Without a value in any field it is the policy's.
struct GuestPython {
  std::string described;           // of none of this machine: JSON with version, implementation, flags, machine, libc
                                   // and packages, as the guest gives it
  std::string executable;          // of this machine
  std::vector<std::string> sites;  // where it has its packages; empty: where an interpreter has them by itself
};

class Packages {
 public:
  virtual ~Packages() = default;
  // Shows the guest's Python added packages from its next block on: `directory` is the name of a directory below those
  // that the executor has for this. Empty: none. A guest that does not see these directories gets a copy. The result is
  // the path at which the guest finds them; empty: they are among its own, or there are none.
  virtual async::Task<Result<std::string>> Use(std::string directory) = 0;
  // Nothing: it was not asked yet.
  virtual std::optional<Result<GuestPython>> python() const { return GuestPython{}; }
  // Asks it. Not while a block is on.
  virtual async::Task<void> AskPython(StopToken /*stop*/) { co_return; }
};

// The namespace in which the guest changes its packages.
inline constexpr const char* kPackagesSpace = "deps";

// The environment variable in which processes of the guest find the path of the call socket.
inline constexpr const char* kCallSocketVariable = "CELLA_CALLS";

// Connections that wait to be accepted.
inline constexpr int kCallBacklog = 128;

// Any process of the guest can call the host (calls/door.h).
class CallSocket {
 public:
  virtual ~CallSocket() = default;
  // Makes the socket and listens. Once, before the first run of a session whose spec names namespaces.
  virtual async::Task<Result<UniqueFd>> Listen() = 0;
};

class Guest {
 public:
  virtual ~Guest() = default;
  virtual const Traits& traits(std::string_view language) const = 0;
  virtual const Isolation& isolation() const = 0;
  // The name of the block's language, which the caller may have given by an alias or by a file name.
  virtual std::string LanguageOf(const RunSpec&, const Block& block) const {
    return block.language.empty() ? "python" : block.language;
  }
  // Whether a cell of this language (empty: the session's own) can get values as variables (RunSpec::variables).
  virtual bool takes_values(std::string_view /*language*/) const { return false; }
  // Makes the guest ready and sends it the block. A stop request that ends the run makes Begin return early, with an
  // error of the code kClosed that is not reported.
  virtual async::Task<Result<std::unique_ptr<Execution>>> Begin(const BlockTurn& turn, StopToken stop) = 0;
  // Recovers where it must, and reports changed files to the sink. An Error is ours.
  virtual async::Task<Result<StateReport>> AfterBlock(const RunFacts& facts, EventSink& sink) = 0;
  // Ends everything and waits until it is gone.
  virtual async::Task<void> Close() = 0;

  // Null: not supported.
  virtual Checkpoints* checkpoints() { return nullptr; }
  virtual Assistant* assistant() { return nullptr; }
  virtual Resettable* resettable() { return nullptr; }
  virtual Packages* packages() { return nullptr; }
  virtual CallSocket* call_socket() { return nullptr; }
  // What the guest sees as its working directory. Valid until Close.
  virtual const os::Directory* workspace() const { return nullptr; }
  // Charged to it now; absent where nothing counts it.
  virtual std::optional<uint64_t> MemoryUsed() const { return std::nullopt; }
  // Measured now; may be asked while a block is on.
  virtual async::Task<GuestUsage> MeasureUsage() = 0;
};

// What a block of such a run can do there.
inline const Traits& TraitsOf(const Guest& guest, RunAs as, std::string_view language) {
  return as == RunAs::kProgram ? kPrograms : guest.traits(language);
}

// What stands ready for sessions to come.
struct Readiness {
  size_t zygotes = 0;
  size_t jails = 0;   // empty
  size_t parked = 0;  // whole sessions
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `only`: the one run that the guest is for, to plan by; null: a session.
  virtual async::Task<Result<std::unique_ptr<Guest>>> Open(GuestSpec spec, const RunSpec* only, StopToken stop) = 0;
  // Starts what guests of this kind share, so that the first of them need not wait for it.
  virtual async::Task<Status> Prepare(const GuestSpec&) { co_return Status{}; }
  virtual Readiness readiness() const { return {}; }
  // Ends what was made ahead of demand. After the last guest, before the executor is destroyed.
  virtual async::Task<void> Close() { co_return; }
};

}  // namespace cella::run
