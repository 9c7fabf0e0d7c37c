// What a session's policy means on this machine: which interpreters, which root tree, which environment variables. The
// same for all sessions of one policy (their limits aside, and the directories of the host that each of them has), so
// it is made once and kept.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "confine/env_vars.h"
#include "confine/identity.h"
#include "confine/launch_context.h"
#include "confine/root_tree.h"
#include "confine/spec_builder.h"
#include "language/code_trust.h"
#include "language/plan.h"
#include "run/executor.h"

namespace cella::executor {

struct SessionPlan {
  confine::BuildIdentity identity;
  confine::JailSpecBuilder tree;  // complete but for what is each jail's own: limits, workspace, mounts
  // Languages that keep state, and how their runners are started; what the machine lacks is absent.
  struct Interpreter {
    language::Plan plan;
    std::vector<std::string> argv;  // of the runner
  };
  std::map<std::string, Interpreter> interpreters;
  // With the variables that the policy names. Without any it is the zygote's: nothing that a policy names
  // (LD_PRELOAD, for example) affects what runs before any guest.
  confine::EnvVars EnvVarsFor(const Policy& policy) const;
  std::string no_fork;  // why Python cannot be forked from a zygote; empty: it can
  // Files and directories whose change makes this plan (and the zygote that was started from it) stale.
  std::vector<std::pair<std::string, int64_t>> stamps;

  language::CodePlaces code;  // what a zygote would load
  uint64_t guests_known = 0;  // the version of the directories of guests by which the code was trusted

  std::vector<std::string> module_paths;  // that .pth files add to Python's own, as an editable install does

  bool Stale() const;
  // One of these directories holds, or lies in, what the interpreters consist of.
  bool Touches(const std::vector<std::string>& directories) const;
  // A directory of the host is part of the root tree, at its own path.
  bool Shows(const std::string& directory) const;
  std::vector<std::string> visible;
  confine::EnvVars base;  // before what languages and policies add
  language::Plan merged;  // what the interpreters need together
};

// Puts our pip and the packages that the session added (`directory`, inside; empty: the guest keeps a link to them) in
// front of what the guest's programs find.
void ShowPackages(const std::string& directory, confine::EnvVars* variables);
// The same for a guest that has Cella's runners and its call socket at these places.
void ShowPackages(const std::string& directory, const std::string& runners, const std::string& call_socket,
                  confine::EnvVars* variables);

// kUnsupported: the runner cannot run in this Python.
Status CheckPython(const language::Plan& plan);

// How a block runs under the policy. Blocks while tools are asked.
Result<language::Plan> PlanLanguage(const confine::LaunchContext& context, const Policy& policy,
                                    const language::Block& block);

// Blocks while tools are asked. Plans of one process have different numbers: each gets a user id of its own.
Result<SessionPlan> PlanSession(const confine::LaunchContext& context, const run::GuestSpec& spec, bool strict_memory,
                                uint32_t number);

// Of a session with a storage: Python programs have the names of its namespaces, as cells have them (runners/names).
// `runners`: where programs find that directory.
void ShowNames(const std::vector<std::string>& spaces, const std::string& runners, confine::EnvVars* variables);

// The same for two requests whose sessions can share a plan and a zygote, unless the plan touches what they may write.
std::string PlanKey(const run::GuestSpec& spec, const std::vector<confine::MountPoint>& points);
// The same for two requests whose sessions are interchangeable.
std::string PoolKey(const run::GuestSpec& spec);
// Whether there are such sessions: it has no directories of its own.
bool IsInterchangeable(const run::GuestSpec& spec);

}  // namespace cella::executor
