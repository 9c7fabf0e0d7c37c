// Where interpreters of a given Python version are looked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "language/host_env.h"

namespace cella::language {

// "3.12" of "3.12" and "python3.12", "3" of "python3"; nullopt: not a version.
std::optional<std::string> ParsePythonVersion(std::string_view text);

// "3.12.1" is "3.12" and "3"; "3.1" is not "3.12".
bool VersionMatches(std::string_view version, std::string_view wanted);

// Paths that may be that version, best first: PATH, pyenv, uv, the system's directories, /opt, asdf, mise. What they
// really are, only they can tell.
std::vector<std::string> VersionCandidates(std::string_view wanted, const HostEnv& host);

// Directories of version managers, and /opt, whose children are prefixes of interpreters.
std::vector<std::string> PythonRoots(const HostEnv& host);

// Interpreters of any version that can be named when one is missing; shims are left out.
std::vector<std::string> InstalledPythons(const HostEnv& host);

}  // namespace cella::language
