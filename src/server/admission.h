// Whether this server gives what a Policy document asks for, and the session that follows from document and
// configuration together. Resolves host paths, hence blocks on the file system for a moment; keeps nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cella/policy.h"
#include "policy/keys.h"
#include "server/api_error.h"
#include "server/config.h"

namespace cella::server {

// The body of a request, or the "policy" in it. 400: not JSON, an unknown key, a value that cannot be meant.
Answer<policy::Request> ParsePolicy(std::string_view body);
Answer<policy::Request> ReadPolicy(const nlohmann::json& value);

// 403 names the key that this server does not allow; 400 what contradicts itself or does not exist. `client` is whose
// quota bounds the memory of one session.
Answer<SessionSpec> Admit(const policy::Request& request, const Config& config, std::string_view client);

// The same for an environment that is to be made under a name.
Answer<EnvironmentChoice> AdmitEnvironment(const EnvironmentChoice& choice, const Config& config);

}  // namespace cella::server
