// The port through which everything above sees the places where code runs. An Executor runs one plan and emits its
// events; how the guest ended is an Outcome, an Error means that nothing ran (or that we broke).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "cella/event.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "language/plan.h"

namespace cella::executor {

struct InputFile {
  std::string name;  // in the workspace
  std::string content;
  bool executable = false;
};

struct RunRequest {
  language::Block block;
  std::vector<std::string> args;  // of the program
  std::string file_name;          // what the code's file is called, when it came from one
  Policy policy;
  std::vector<InputFile> files;
  UniqueFd standard_input;  // what the program reads; empty: nothing
  bool list_files = false;  // emit what changed in the workspace
  std::string out_dir;      // copy changed files there; empty: don't
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  // Awaited: a slow reader slows the guest down instead of filling our memory. False: nobody wants more of this (the
  // reader of an output stream is gone), and the guest shall feel it as a closed pipe.
  virtual async::Task<bool> Emit(Event event) = 0;
};

class SessionGuest;     // session_guest.h
struct SessionRequest;  // there

// What stands ready for sessions to come.
struct Readiness {
  size_t zygotes = 0;
  size_t shells = 0;  // empty jails
  size_t parked = 0;  // whole sessions
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `cancel` ends the run early: kCancelled, with what it wrote so far.
  virtual async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) = 0;
  // A guest that keeps its files, and its state where the executor can.
  virtual async::Task<Result<std::unique_ptr<SessionGuest>>> Open(SessionRequest request) = 0;
  // Starts what sessions of this kind share, so that the first of them need not wait for it.
  virtual async::Task<Status> Prepare(const SessionRequest&) { co_return Status{}; }
  virtual Readiness readiness() const { return {}; }
  // Ends what was made ahead of demand. After the last session, before the executor goes away.
  virtual async::Task<void> Close() { co_return; }
};

}  // namespace cella::executor
