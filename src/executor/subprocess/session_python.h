// The Python of a session that has ipykernel and no kernelspec: a fresh virtual environment of its own, or the one that
// the policy names, which is made when it is missing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cella/policy.h"
#include "confine/launch_context.h"
#include "executor/subprocess/kernel_environments.h"

namespace cella::executor {

struct SessionPython {
  std::string venv, python;       // for the policy by which the interpreter is looked up
  std::vector<std::string> bins;  // with programs of packages, after the interpreter's own directory on PATH
  std::string description;        // "ipykernel in a fresh environment of '/usr/bin/python3.11'"
  std::string environment;        // the finished environment that its kernel comes from; empty: none
  // Of a fresh or a finished one: the base interpreter, and where the packages are. Else both are empty.
  std::string base;
  std::vector<std::string> sites;
  std::string version;          // of the base; of a fresh one alone
  bool fresh = false;           // of a few files that belong to this session alone
  std::shared_ptr<void> lease;  // on the environment
};

// `environments` is null where none can be built. `directory` is where a fresh one is made; it does not exist yet. Asks
// interpreters about themselves, off the loop.
async::Task<Result<SessionPython>> ChooseSessionPython(confine::LaunchContext& context,
                                                       KernelEnvironments* environments, Policy asked,
                                                       const std::string& directory, run::StopToken stop);

// The virtual environment that the policy names, unless it is a finished environment, which is read-only; empty:
// none.
std::string KeptVenv(const confine::LaunchContext& context, const Policy& asked);

// kPermission: guests could replace in the named virtual environment what is being written.
Status CheckWritable(const confine::LaunchContext& context, const Policy& policy);

// Adds ipykernel to the named virtual environment, without another version of what it has.
async::Task<Status> AddIpykernel(confine::LaunchContext& context, KernelEnvironments& environments, Policy asked,
                                 run::StopToken stop);

}  // namespace cella::executor
