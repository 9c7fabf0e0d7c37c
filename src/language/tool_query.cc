#include "language/tool_query.h"

#include "language/visible.h"

namespace cella::language {

std::vector<std::string> CleanEnvironment(const std::vector<std::string>& path_dirs) {
  std::string path;
  for (const std::string& dir : path_dirs) path += dir + ":";
  // A question must never start a download.
  return {"LC_ALL=C.UTF-8", "HOME=/tmp", "GOTOOLCHAIN=local", "RUSTUP_AUTO_INSTALL=0", "PATH=" + path + StandardPath()};
}

}  // namespace cella::language
