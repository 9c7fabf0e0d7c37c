// Version managers (pyenv, asdf, mise, rustup, …). Their shims and proxies stand for one of several installed versions,
// and say which one when they are asked. A shim is asked from "/", where no guest may have written a file that names
// another program (rust-toolchain.toml, .tool-versions), and sees what its manager has installed. Looks at the file
// system only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"

namespace cella::language {

// A script, or a program of a directory "shims", that picks the real program when it is started.
bool IsShim(const std::string& program);

// A multi-call binary that finds its place by the name it is called by (rustup, mise, snap), or a shim.
bool IsProxy(std::string_view name, const std::string& program);

// What a question to such a program needs.
struct ProxyQuestion {
  std::vector<std::string> visible;
  std::vector<std::string> env;
  std::vector<std::string> deciding;  // files by which the manager chooses
};

// kUnsupported: its directory cannot be shown, see VisibleSet.
Result<ProxyQuestion> DescribeProxy(const std::string& program, const HostEnv& host);

// The variables of HostEnv::variables.
std::vector<std::string> ManagerVariables();

}  // namespace cella::language
