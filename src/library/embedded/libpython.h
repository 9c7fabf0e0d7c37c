// CPython in this process: chosen, loaded and started on first use. Everything here blocks and belongs on a pool.
#pragma once

#include <signal.h>

#include <string>

#include "base/result.h"
#include "cella/policy.h"
#include "engine/installation.h"
#include "language/host_env.h"

namespace cella::library {

struct EmbeddedPython {
  std::string version;  // "3.11.2"
  std::string prefix;
  void (*serve)(int socket) = nullptr;  // opens a session on it (plugin.h)
};

// The interpreter that the process has, else the one that the policy chooses. kUnsupported: the policy names another
// than the process has, or the chosen one has no shared library. `signals`: the mask of threads that run code.
Result<EmbeddedPython> StartPython(const engine::Installation& installation, const language::HostEnv& host,
                                   const Policy& policy, const sigset_t& signals);

// False before the interpreter's start, and when a Python that is the whole process is about to exit.
bool HasInterpreter();
// kInvalid: the calling thread holds the lock of an interpreter in this process. Then no code could run while it waits.
Status CheckInterpreterIsFree();

}  // namespace cella::library
