// The paths of the host that no guest may have, whatever a policy names: what belongs to Cella, and where the services
// of this user and machine listen.
#pragma once

#include <string>
#include <vector>

#include "confine/host_shares.h"
#include "engine/installation.h"

namespace cella::engine {

// As this process knows them. `cache_dir`: of the answers of interpreters; may be empty. What a server was configured
// with besides is added by the server. Not to be called while another thread changes the environment.
std::vector<confine::GuardedPath> GuardedPaths(const Installation& installation, const std::string& cache_dir);

}  // namespace cella::engine
