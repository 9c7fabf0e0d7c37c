// A program of ours in a container, from its start to its end, beside no run: the command of the policy, a question.
#pragma once

#include <chrono>
#include <string>

#include "async/task.h"
#include "base/result.h"
#include "cella/outcome.h"
#include "confine/program_execution.h"
#include "run/stop.h"

namespace cella::executor {

struct ProgramBounds {
  std::chrono::nanoseconds time{};
  size_t output = 0;  // bytes that are kept, of each text below
  Limits limits{};    // the policy's
};

struct EndedProgram {
  Outcome outcome;
  bool timed_out = false;
  std::string output;  // the beginning of standard output
  std::string tail;    // the end of both streams
};

// Within the guest's limits. An Error: it did not start, the container ended, or the request to stop came.
async::Task<Result<EndedProgram>> RunToEnd(confine::ProgramPlace place, confine::Program program, ProgramBounds bounds,
                                           run::StopToken stop);

}  // namespace cella::executor
