// Which interpreter an environment rests on. Blocks while an interpreter is asked for the first time.
#pragma once

#include <string>

#include "base/result.h"
#include "environment/request.h"
#include "language/code_trust.h"
#include "language/host_env.h"

namespace cella::installer {

// `python`: as --python has it; empty: the default. `required`: canonical specifiers of requires-python; where the
// default is outside of them, another interpreter of this machine is chosen. Virtual environments are left for what
// they were made from. kNotFound: no interpreter fits.
//
// The installer runs the interpreter where the network, the index and the cache are. Hence no guest may have written
// it: `guests` has the directories that were given to them. Null: these are unknown; then only the interpreters of the
// system and of version managers are taken. kPermission: others.
Result<environment::BasePython> ChooseBasePython(const language::HostEnv& host, const std::string& python,
                                                 const std::string& required,
                                                 const language::GuestDirectories* guests = nullptr);

}  // namespace cella::installer
