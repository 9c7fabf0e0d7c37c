#include "language/python_environment.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

constexpr uint64_t kMaxConfig = 64 * 1024;
constexpr int kMaxNested = 8;
constexpr int kMaxRecords = 20'000;  // of packages; the largest Conda environments have some thousand

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  size_t start = text.find_first_not_of(kBlank);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlank) - start + 1);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "3.11.7" of "3.11.7.final.0", "3.11" of "3.11"; "" of anything else.
std::string LeadingVersion(std::string_view text) {
  size_t end = 0;
  for (int part = 0; part < 3; ++part) {
    size_t at = end + (part == 0 ? 0 : 1);
    if (part > 0 && (end >= text.size() || text[end] != '.')) break;
    size_t stop = at;
    while (stop < text.size() && IsDigit(text[stop])) ++stop;
    if (stop == at || stop - at > 3) break;
    end = stop;
  }
  std::string_view version = text.substr(0, end);
  return version.contains('.') ? std::string(version) : std::string();
}

// "python3.13t", "pypy3": the file names that an environment's base may have.
bool IsInterpreterName(std::string_view name) {
  for (std::string_view kind : {"python", "pypy", "graalpy"}) {
    if (!name.starts_with(kind)) continue;
    std::string_view rest = name.substr(kind.size());
    if (rest.ends_with('t')) rest.remove_suffix(1);
    return std::ranges::all_of(rest, [](char c) { return IsDigit(c) || c == '.'; });
  }
  return false;
}

bool IsExecutableFile(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

Result<VenvConfig> ReadVenvConfig(const std::string& dir) {
  std::string path = dir + "/pyvenv.cfg";
  TRY(std::string text, ReadDataFile(path, kMaxConfig));
  VenvConfig config = ParseVenvConfig(text);
  if (!config.home.starts_with('/') || config.home.contains('\0')) {
    return Err(ErrorCode::kUnsupported, "'{}' does not say where its base interpreter is (home = …)", path);
  }
  return config;
}

// The interpreter that the environment was made from, in its home; "" when there is none.
std::string BaseInterpreter(const VenvConfig& config) {
  std::vector<std::string> names;
  if (!config.executable.empty()) names.push_back(config.executable);
  if (!config.version.empty()) {
    size_t second = config.version.find('.', config.version.find('.') + 1);
    names.push_back("python" + config.version.substr(0, second));
    names.push_back("pypy" + config.version.substr(0, second));
  }
  names.insert(names.end(), {"python3", "python", "pypy3"});
  std::string home = Normalize(config.home, "/");
  for (const std::string& name : names) {
    std::string path = home == "/" ? "/" + name : home + "/" + name;
    if (IsExecutableFile(path)) return path;
  }
  return {};
}

}  // namespace

VenvConfig ParseVenvConfig(std::string_view text) {
  VenvConfig config;
  std::string version_info;
  auto set_once = [](std::string& to, std::string_view value) {
    if (to.empty()) to = value;
  };
  for (size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    size_t newline = text.find('\n');
    end = newline == std::string_view::npos ? text.size() : newline + 1;
    std::string_view line = text.substr(0, end);
    size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string key(Trim(line.substr(0, equals)));
    std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = Trim(line.substr(equals + 1));
    if (key == "home") set_once(config.home, value);
    if (key == "version") set_once(config.version, LeadingVersion(value));
    if (key == "version_info") set_once(version_info, LeadingVersion(value));
    if (key == "executable" || key == "base-executable") {
      if (std::string_view name = BaseName(value); IsInterpreterName(name)) set_once(config.executable, name);
    }
  }
  if (config.version.empty()) config.version = version_info;
  return config;
}

std::string VirtualEnvironmentOf(const std::string& program) {
  std::string dir = DirName(program);
  for (const std::string& prefix : {dir, DirName(dir)}) {
    if (::access((prefix == "/" ? "/pyvenv.cfg" : prefix + "/pyvenv.cfg").c_str(), F_OK) == 0) return prefix;
  }
  return {};
}

Result<VenvBase> FindVenvBase(const std::string& dir, const HostEnv& host) {
  VenvBase base;
  std::string at = dir;
  for (int depth = 0; depth < kMaxNested; ++depth) {
    // Else a guest could exchange its environment for another directory, which would then be shown.
    TRY_VOID(ResolveHostPath(at, host.guest_writable));
    TRY(VenvConfig config, ReadVenvConfig(at));
    base.executable = BaseInterpreter(config);
    if (base.executable.empty()) {
      return Err(ErrorCode::kUnsupported,
                 "the virtual environment '{}' was made from an interpreter in '{}', where none is", at, config.home);
    }
    at = VirtualEnvironmentOf(base.executable);
    if (at.empty()) return base;
    base.between.push_back(at);
  }
  return Err(ErrorCode::kUnsupported, "the virtual environment '{}' rests on itself, or on too many others", dir);
}

std::optional<std::string> CondaPythonVersion(const std::string& prefix) {
  std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir((prefix + "/conda-meta").c_str()));
  if (!open) return std::nullopt;
  for (int i = 0; i < kMaxRecords; ++i) {
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) return std::nullopt;
    // python-3.11.7-h955ad1f_0.json
    std::string_view name = entry->d_name;
    if (!name.starts_with("python-") || !name.ends_with(".json")) continue;
    std::string version = LeadingVersion(name.substr(7));
    if (!version.empty() && name.substr(7 + version.size()).starts_with('-')) return version;
  }
  return std::nullopt;
}

bool IsPythonEnvironment(const std::string& dir) {
  return ::access((dir + "/pyvenv.cfg").c_str(), F_OK) == 0 || CondaPythonVersion(dir).has_value();
}

}  // namespace cella::language
