#include "cli/repl/history_place.h"

#include <sys/stat.h>

#include <cstdlib>

#include "language/host_path.h"

namespace cella::cli {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Result<std::string> HistoryPlace(std::span<const std::string> guest_writable) {
  // A relative one is to be ignored, says the XDG base directory specification.
  std::string state = Variable("XDG_STATE_HOME");
  if (!state.starts_with('/')) {
    const std::string home = Variable("HOME");
    if (!home.starts_with('/')) return Err(ErrorCode::kNotFound, "HOME is not set");
    state = home + "/.local/state";
  }
  TRY(std::string directory, language::ResolveHostDirectoryForCreation(state + "/cella", guest_writable));
  for (size_t end = directory.find('/', 1);; end = directory.find('/', end + 1)) {
    std::string path = directory.substr(0, end);
    if (mkdir(path.c_str(), 0700) < 0 && errno != EEXIST) return SysErr(errno, "make '{}'", path);
    if (end == std::string::npos) return directory + "/history";
  }
}

}  // namespace cella::cli
