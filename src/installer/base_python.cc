#include "installer/base_python.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "environment/python_range.h"
#include "language/host_path.h"
#include "language/python.h"
#include "language/python_environment.h"
#include "language/python_search.h"
#include "language/visible.h"

namespace cella::installer {
namespace {

using environment::BasePython;

constexpr int kNewestMinor = 15;
constexpr int kOldestMinor = 8;

Result<BasePython> Describe(const std::string& executable, std::string version) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(executable, error);
  struct stat info;
  if (error || ::stat(real.c_str(), &info) < 0) return SysErr(error ? error.value() : errno, "'{}'", executable);
  return BasePython{
      real, std::move(version),
      fmt::format("{}:{}:{}:{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec)};
}

// Of Conda, below the home directory, as its installers name them.
constexpr const char* kCondaRoots[] = {"/miniconda3", "/anaconda3",   "/miniforge3",        "/mambaforge",
                                       "/micromamba", "/.conda/envs", "/.local/share/mamba"};

// Where an interpreter is the caller's own, and no directory that a guest works in.
bool IsOfManager(const std::string& path, const language::HostEnv& host) {
  if (language::AlwaysVisible(path) || language::IsBelow(path, "/nix/store")) return true;
  std::vector<std::string> roots = language::PythonRoots(host);
  for (const char* conda : kCondaRoots) roots.push_back(host.home + conda);
  return std::ranges::any_of(roots, [&](const std::string& root) {
    const std::string real = root.starts_with('/') ? language::RealPath(root) : "";
    return !real.empty() && language::IsBelow(path, real);
  });
}

Status CheckBase(const BasePython& base, const language::HostEnv& host, const language::GuestDirectories* guests) {
  if (guests == nullptr) {
    if (IsOfManager(base.executable, host)) return {};
    return Err(ErrorCode::kPermission,
               "packages are not installed with the interpreter '{}', which lies neither in the system's directories "
               "nor in those of a version manager: a guest may have left it there; name another one with --python",
               base.executable);
  }
  const std::string why = language::WhyUntrusted({.places = {base.executable}}, guests->Take());
  if (why.empty()) return {};
  return Err(ErrorCode::kPermission, "packages are not installed with this session's interpreter: {}", why);
}

Result<BasePython> Resolve(const language::HostEnv& host, const std::string& python) {
  TRY(language::Python found, language::ResolvePython({.python = python, .venv = {}, .host = host}));
  const std::string own =
      found.virtual_env.empty() ? language::VirtualEnvironmentOf(found.executable) : found.virtual_env;
  if (own.empty()) return Describe(found.executable, found.version);
  TRY(language::VenvBase base, language::FindVenvBase(own, host));
  return Describe(base.executable, found.version);
}

}  // namespace

Result<BasePython> ChooseBasePython(const language::HostEnv& host, const std::string& python,
                                    const std::string& required, const language::GuestDirectories* guests) {
  auto chosen = Resolve(host, python);
  if (chosen && environment::Permits(required, chosen->version)) {
    TRY_VOID(CheckBase(*chosen, host, guests));
    return chosen;
  }
  if (!python.empty() || required.empty()) {
    if (!chosen) return chosen;
    return Err(ErrorCode::kInvalid, "the script requires Python {}, and --python is {}", required, chosen->version);
  }
  for (int minor = kNewestMinor; minor >= kOldestMinor; --minor) {
    auto other = Resolve(host, fmt::format("3.{}", minor));
    if (!other || !environment::Permits(required, other->version)) continue;
    if (CheckBase(*other, host, guests)) return other;
  }
  return Err(ErrorCode::kNotFound,
             "the script requires Python {}, which this machine does not have: install it, or name it with --python",
             required);
}

}  // namespace cella::installer
