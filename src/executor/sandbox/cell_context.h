// What the blocks of a session's runners, and the questions between them, have in common. Lives on the loop.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "async/ready_set.h"
#include "confine/jail.h"
#include "confine/limits.h"
#include "executor/sandbox/runner.h"
#include "os/cgroup.h"
#include "os/io.h"
#include "os/pidfd.h"

namespace cella::executor {

// What an execution uses of its session. All of it outlives the execution.
struct CellContext {
  async::Loop& loop;
  async::BlockingPool& decoding;  // of large frames
  async::ReadySet& ready;         // holds the descriptors below under the keys of CellKey
  confine::Jail& jail;
  const os::CgroupMeter& meter;
  const confine::LimitPlan& limit_plan;
  int out;  // what the guest writes
  int err;
  os::NamespaceId pid_namespace;  // the jail's
  // A checkpoint came: the automatic one, or a named one.
  std::function<void(const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy)> on_checkpoint;
  // The jail is that of an agent: instead of a pidfd comes a socket (AgentBridge::TakeCopy).
  bool in_container = false;
};

enum CellKey { kKeyOut, kKeyErr, kKeyControl, kKeyChannel, kKeyProcess };

// Makes the pipes into which the runners write, and puts what the context names into its set. Once.
Status OpenCellPipes(CellContext* context, os::Pipe* out, os::Pipe* err);

// Drops what processes of the guest wrote after the last block, within bounds.
void DropLateOutput(const CellContext& context);

// Takes the descriptors that came beside the frame.
void TakeCheckpoint(const CellContext& context, Runner& runner, const runner::CheckpointFrame& frame);
// Takes what a runner has sent between two runs; false: it is no runner any more.
bool TakeIdleFrames(const CellContext& context, Runner& runner);

// Sends a question, or with a name the demand for a checkpoint of that name, and waits for the answer: JSON text, or
// the checkpoint's status. Between two blocks; the runner is registered in the set. What background threads of the
// guest print meanwhile waits for the next block. kClosed: the runner has ended, or did not answer in time.
async::Task<Result<std::string>> AskRunner(const CellContext& context, Runner& runner, std::string payload,
                                           std::chrono::nanoseconds patience,
                                           const std::optional<std::string>& checkpoint_name = std::nullopt);

}  // namespace cella::executor
