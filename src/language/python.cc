#include "language/python.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "language/path_files.h"
#include "language/python_answer.h"
#include "language/python_environment.h"
#include "language/python_search.h"
#include "language/tool.h"
#include "language/version_managers.h"
#include "language/visible.h"

namespace cella::language {
namespace {

constexpr size_t kMaxListed = 16;
constexpr char kInstall[] = "install it with: sudo apt install python3, or pass --python PATH";

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool IsDirectory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// "3.11" of "3.11.7".
std::string_view Minor(std::string_view version) {
  return version.substr(0, version.find('.', std::min(version.find('.'), version.size() - 1) + 1));
}

// So that a strange answer does not make an arbitrary directory visible.
bool LooksLikePrefix(const std::string& prefix, std::string_view version) {
  return Exists(fmt::format("{}/lib/python{}", prefix, Minor(version))) || Exists(prefix + "/pyvenv.cfg") ||
         Exists(prefix + "/conda-meta") || Exists(fmt::format("{}/lib64/python{}", prefix, Minor(version))) ||
         Exists(fmt::format("{}/lib/pypy{}", prefix, Minor(version)));
}

Status AddPrefixes(const PythonAnswer& answer, VisibleSet& visible) {
  std::vector<const std::string*> done;
  for (const std::string* prefix :
       {&answer.prefix, &answer.base_prefix, &answer.exec_prefix, &answer.base_exec_prefix}) {
    if (std::ranges::any_of(done, [&](const std::string* other) { return *other == *prefix; })) continue;
    done.push_back(prefix);
    std::string clean = Normalize(*prefix, "/");
    if (!AlwaysVisible(clean) && !IsBelow(clean, "/nix/store") && !LooksLikePrefix(clean, answer.version)) {
      return Err(ErrorCode::kUnsupported,
                 "'{}' says that it is installed in '{}', which does not look like a Python installation",
                 answer.executable, *prefix);
    }
    TRY_VOID(visible.Add(clean));
  }
  return {};
}

// The files of an environment may be a guest's work, and its links must not show directories that the caller did not
// mean: every one must lead into a prefix. The links of its base interpreter, which has answered, are taken as they
// are.
Status AddLinksOfEnvironment(const PythonAnswer& answer, VisibleSet& visible) {
  for (const std::string& dir : answer.between) TRY_VOID(visible.Add(dir));
  std::vector<std::string> base;
  if (!answer.base_executable.empty()) base = LinkChain(answer.base_executable);
  for (const std::string& path : base) {
    if (!visible.Covers(path) && !IsBelow(path, "/etc")) TRY_VOID(visible.Add(DirName(path)));
  }
  std::vector<std::string> more;
  for (const std::string& path : LinkChain(answer.executable)) {
    if (visible.Covers(path) || IsBelow(path, "/etc")) continue;
    if (!visible.Covers(RealPath(path))) {
      return Err(ErrorCode::kUnsupported,
                 "its interpreter is a link to '{}', which does not belong to the installation that it was made from",
                 path);
    }
    more.push_back(DirName(path));
  }
  for (const std::string& dir : more) TRY_VOID(visible.Add(dir));
  return {};
}

Result<Python> Describe(const PythonAnswer& answer, const HostEnv& host) {
  Python python;
  python.executable = answer.executable;
  python.version = answer.version;
  python.prefix = answer.prefix;
  python.base_prefix = answer.base_prefix;
  python.exec_prefix = answer.exec_prefix;
  python.base_exec_prefix = answer.base_exec_prefix;
  if (answer.prefix != answer.base_prefix) python.virtual_env = answer.prefix;
  VisibleSet visible(host.home);
  Status covered = [&]() -> Status {
    TRY_VOID(AddPrefixes(answer, visible));
    if (answer.read_as_data) return AddLinksOfEnvironment(answer, visible);
    std::vector<std::string> chain = LinkChain(answer.executable);
    // A link outside every prefix (~/.local/bin/python3.12 of uv) need not be shown: the interpreter finds its prefix
    // by its real path. Not so in a virtual environment, which is recognised by the path it is called by.
    if (python.virtual_env.empty() && !visible.Covers(chain.front()) && visible.Covers(chain.back())) {
      python.executable = chain.back();
      return {};
    }
    for (const std::string& path : chain) {
      if (!visible.Covers(path) && !IsBelow(path, "/etc")) TRY_VOID(visible.Add(DirName(path)));
    }
    return {};
  }();
  if (!covered) {
    return std::unexpected(std::move(covered.error()).WithContext(fmt::format("Python '{}'", answer.executable)));
  }
  if (!python.virtual_env.empty()) {
    for (const std::string& dir : PathFileDirectories(python.virtual_env, python.version, host)) {
      (void)visible.Add(dir);  // what is too wide to be shown is not
    }
  }
  python.visible = visible.Take();
  if (std::string dir = DirName(python.executable); !StandardBinDirectory(dir)) python.path_dirs = {std::move(dir)};
  return python;
}

// The interpreter as it was found. Its environment is recognised by its place, as it recognises it itself.
Result<Python> AsFound(const std::string& path) {
  if (::access(path.c_str(), X_OK) != 0 || IsDirectory(path)) {
    return Err(ErrorCode::kNotFound, "'{}' is not an executable file", path);
  }
  Python python;
  python.executable = path;
  python.virtual_env = VirtualEnvironmentOf(path);
  if (std::string dir = DirName(path); !StandardBinDirectory(dir)) python.path_dirs = {std::move(dir)};
  return python;
}

// bin/python of an environment or installation, else "".
std::string InterpreterIn(const std::string& prefix) {
  for (const char* name : {"/bin/python", "/bin/python3"}) {
    if (::access((prefix + name).c_str(), X_OK) == 0) return prefix + name;
  }
  return {};
}

Result<Python> FromVenv(const PythonRequest& request, PythonAsker& asker) {
  std::optional<std::string> wanted;
  if (!request.python.empty()) {
    wanted = ParsePythonVersion(request.python);
    if (!wanted) {
      return Err(ErrorCode::kInvalid,
                 "a virtual environment has its own interpreter: pass --venv or --python, not both");
    }
  }
  std::string dir = Normalize(request.venv, request.host.cwd);
  std::string path = InterpreterIn(dir);
  if (path.empty()) {
    return Err(ErrorCode::kNotFound, "'{}' is not a virtual environment: it has no bin/python", request.venv);
  }
  if (!IsPythonEnvironment(dir)) {
    return Err(ErrorCode::kNotFound,
               "'{}' is not a virtual environment: it has no pyvenv.cfg; pass an interpreter with --python",
               request.venv);
  }
  if (!wanted && request.destination == Destination::kHost) return AsFound(path);
  TRY(PythonAnswer answer, asker.Ask(path));
  if (wanted && !VersionMatches(answer.version, *wanted)) {
    return Err(ErrorCode::kInvalid, "the virtual environment '{}' has Python {}, not {}", request.venv, answer.version,
               *wanted);
  }
  return Describe(answer, request.host);
}

Result<Python> FromPath(const std::string& given, const PythonRequest& request, PythonAsker& asker) {
  std::string path = Normalize(given, request.host.cwd);
  if (IsDirectory(path)) {
    path = InterpreterIn(path);
    if (path.empty()) return Err(ErrorCode::kNotFound, "the directory '{}' has no bin/python", given);
  }
  if (request.destination == Destination::kHost) return AsFound(path);
  TRY(PythonAnswer answer, asker.Ask(path));
  return Describe(answer, request.host);
}

// The first that answers and fits. The first obstacle is told when nothing does.
Result<Python> FirstOf(const std::vector<std::string>& paths, std::string_view wanted, const HostEnv& host,
                       PythonAsker& asker) {
  std::optional<Error> obstacle;
  for (const std::string& path : paths) {
    auto answer = asker.Ask(path);
    // A shim that has nothing to offer is not an obstacle, only a dead end.
    if (!answer && IsShim(path)) continue;
    if (answer && !wanted.empty() && !VersionMatches(answer->version, wanted)) continue;
    auto python = answer ? Describe(*answer, host) : Result<Python>(std::unexpected(std::move(answer.error())));
    if (python) return python;
    if (!obstacle) obstacle = std::move(python.error());
  }
  if (obstacle) return std::unexpected(std::move(*obstacle));
  return Err(ErrorCode::kNotFound, "none");
}

Error MissingVersion(std::string_view wanted, const HostEnv& host, PythonAsker& asker) {
  std::vector<std::string> seen;
  std::vector<std::string> listed;
  for (const std::string& path : InstalledPythons(host)) {
    std::string real = RealPath(path);
    if (listed.size() >= kMaxListed || std::ranges::find(seen, real) != seen.end()) continue;
    seen.push_back(std::move(real));
    if (auto answer = asker.Ask(path)) listed.push_back(fmt::format("{} ({})", answer->version, path));
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("Python {} was not found; installed: {}; install it or pass --python PATH", wanted,
                           listed.empty() ? "none" : fmt::format("{}", fmt::join(listed, ", ")))};
}

Result<Python> Named(const PythonRequest& request, PythonAsker& asker) {
  const std::string& name = request.python;
  const HostEnv& host = request.host;
  if (name.contains('\0')) return Err(ErrorCode::kInvalid, "the name of the Python contains a NUL byte");
  if (name.contains('/')) return FromPath(name, request, asker);
  if (std::optional<std::string> wanted = ParsePythonVersion(name)) {
    auto python = FirstOf(VersionCandidates(*wanted, host), *wanted, host, asker);
    if (python || python.error().code != ErrorCode::kNotFound) return python;
    return std::unexpected(MissingVersion(*wanted, host, asker));
  }
  std::vector<std::string> paths = FindOnPath(name, host.path);
  if (request.destination == Destination::kHost && !paths.empty()) return AsFound(paths.front());
  auto python = FirstOf(paths, "", host, asker);
  if (python || python.error().code != ErrorCode::kNotFound) return python;
  return Err(ErrorCode::kNotFound, "Python '{}' was not found on PATH; pass a version such as 3.12, or a path", name);
}

}  // namespace

Result<Python> ResolvePython(const PythonRequest& request) {
  const HostEnv& host = request.host;
  PythonAsker asker(host);
  if (!request.venv.empty()) return FromVenv(request, asker);
  if (!request.python.empty()) return Named(request, asker);
  // A VIRTUAL_ENV that was deleted meanwhile is passed over, as a shell passes it over on PATH.
  if (std::string dir = Normalize(host.virtual_env, "/"); host.virtual_env.starts_with('/')) {
    std::string path = InterpreterIn(dir);
    if (!path.empty() && IsPythonEnvironment(dir)) return FromPath(path, request, asker);
  }
  std::vector<std::string> paths = FindOnPath("python3", host.path);
  std::ranges::move(FindOnPath("python", host.path), std::back_inserter(paths));
  if (request.destination == Destination::kHost && !paths.empty()) return AsFound(paths.front());
  auto python = FirstOf(paths, "3", host, asker);
  if (python || python.error().code != ErrorCode::kNotFound) return python;
  return Err(ErrorCode::kNotFound, "no Python was found: there is no python3 on PATH; {}", kInstall);
}

}  // namespace cella::language
