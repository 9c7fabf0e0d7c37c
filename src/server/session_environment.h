// The Python environments of a server's clients: which one a session gets, and what building one costs its client.
#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "cella/policy.h"
#include "cella/run.h"
#include "installer/environments.h"
#include "run/executor.h"
#include "server/api_error.h"
#include "server/hub.h"

namespace cella::server {

// While it lives, the environment is not removed. Null: none is used.
using EnvironmentLease = std::shared_ptr<const environment::Ready>;

// A share of the client's quota of builds, for as long as one is on; the user's own server counts none. `hub` outlives
// it.
installer::Permit BuildPermitFor(Hub& hub, const std::string& client);

// As which owner, within which bounds, and with whose permit the client asks for an environment.
installer::EnvironmentRequest EnvironmentRequestFor(Hub& hub, const std::string& client, EnvironmentChoice choice);
// The owner of the client's environments; empty: the user, whose own server this is.
// For whom the session's interpreter is started: packages of the client's choice run in it, so no other client shares
// it.
run::Tenant TenantOf(const Hub& hub, const std::string& client, const SessionSpec& spec);

std::string EnvironmentOwner(const Hub& hub, const std::string& client);

// Makes the environment that the spec names, if it is not there, and lets the policy use it.
async::Task<Answer<EnvironmentLease>> PrepareEnvironment(Hub& hub, const std::string& client, SessionSpec* spec);

// The same for one program, which may name its packages itself (PEP 723) where the client may add packages to sessions.
// `run` has one block.
async::Task<Answer<EnvironmentLease>> PrepareProgram(Hub& hub, const std::string& client, const RunSpec& run,
                                                     SessionSpec* spec);

// Errors of environments, with a code that names the subject.
ApiError EnvironmentFailed(const Error& error);

}  // namespace cella::server
