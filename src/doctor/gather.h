// Gathers the facts about this machine: under a second, nothing is left behind. For a process that has one thread and
// is about to report and exit.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"
#include "language/host_env.h"
#include "language/table.h"

namespace cella::doctor {

struct GatherOptions {
  std::string version;                             // of cella
  std::string program;                             // `cella` itself, for the proof
  std::string launcher;                            // cella-launch; empty: not found
  std::string installation_error;                  // empty: complete
  const language::LanguageTable* table = nullptr;  // null: not found; must outlive the call
  language::HostEnv host;
  std::vector<std::string> environment;  // of the caller, "NAME=value"
};

Facts Gather(const GatherOptions& options);

}  // namespace cella::doctor
