// A Python program that began as a fork of the zygote (runners/python/cella_runner/program.py): its own pipes, its own
// end. Unlike a cell it answers nothing; its exit status is what the kernel says.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/task_group.h"
#include "confine/program_execution.h"
#include "executor/sandbox/warm_environment.h"
#include "language/code_name.h"
#include "run/executor.h"
#include "runner/channel.h"

namespace cella::executor {

struct ForkedStart {
  WarmEnvironment::Newborn newborn;
  runner::Channel channel;  // carries the `program` frame; the fork closes it when it begins the code
  UniqueFd out, err;        // what it writes; non-blocking
  UniqueFd input;           // the write end of its standard input; empty: there is none
  std::string input_text;
  language::CodeName name;  // of the code, as standard error shows it
};

// Sends the frame; a large one, and the input, while Advance waits. An Error is ours.
Result<std::unique_ptr<run::Execution>> StartForkedProgram(const confine::ProgramPlace& place, ForkedStart start,
                                                           std::string frame);

}  // namespace cella::executor
