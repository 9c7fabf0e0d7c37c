#include "executor/subprocess/session_python.h"

#include <filesystem>

#include "executor/subprocess/venv_files.h"
#include "language/host_path.h"
#include "language/python.h"
#include "language/python_environment.h"
#include "language/visible.h"

namespace cella::executor {
namespace {

namespace fs = std::filesystem;

// The chosen interpreter, and the base interpreter that a fresh environment is made of.
struct Base {
  std::string chosen;
  std::string executable;
  std::string version;
  std::vector<std::string> sites;  // where the chosen one has its packages
};

// Of a base installation, in the layouts of CPython and Debian, and the user's own.
void AddSystemSites(const std::string& prefix, const std::string& minor, const std::string& home,
                    std::vector<std::string>* sites) {
  std::vector<std::string> candidates = {fmt::format("{}/local/lib/python{}/dist-packages", prefix, minor),
                                         fmt::format("{}/lib/python{}/site-packages", prefix, minor),
                                         fmt::format("{}/lib/python3/dist-packages", prefix)};
  if (!home.empty()) {
    candidates.insert(candidates.begin(), fmt::format("{}/.local/lib/python{}/site-packages", home, minor));
  }
  std::error_code ignored;
  for (std::string& candidate : candidates) {
    if (fs::is_directory(candidate, ignored)) sites->push_back(std::move(candidate));
  }
}

bool SeesSystemPackages(const std::string& venv) {
  constexpr uint64_t kMaxConfig = 64 << 10;
  auto text = language::ReadDataFile(venv + "/pyvenv.cfg", kMaxConfig);
  return text && text->find("include-system-site-packages = true") != std::string::npos;
}

Result<Base> FindBase(const language::HostEnv& host, const std::string& python, const std::string& venv) {
  TRY(const language::Python found, language::ResolvePython({.python = python, .venv = venv, .host = host}));
  Base base{.chosen = found.executable, .executable = found.executable, .version = found.version, .sites = {}};
  const std::string minor = MinorVersion(found.version);
  if (found.virtual_env.empty()) {
    AddSystemSites(found.prefix, minor, host.home, &base.sites);
  } else {
    TRY(language::VenvBase venv_base, language::FindVenvBase(found.virtual_env, host));
    base.executable = std::move(venv_base.executable);
    base.sites.push_back(fmt::format("{}/lib/python{}/site-packages", found.virtual_env, minor));
    if (SeesSystemPackages(found.virtual_env)) AddSystemSites(found.base_prefix, minor, host.home, &base.sites);
  }
  // Its installation is found by its real path.
  if (std::string real = language::RealPath(base.executable); !real.empty()) base.executable = std::move(real);
  return base;
}

async::Task<Result<Base>> FindBase(confine::LaunchContext& context, const Policy& policy, const std::string& venv) {
  const language::HostEnv host = context.HostFor(policy);
  const std::string python = venv.empty() ? policy.python : "";
  auto find = [&] { return FindBase(host, python, venv); };
  auto found = co_await context.planning->Run(find);
  co_return found;
}

// A finished environment of the store, which is read-only.
bool IsFinished(const confine::LaunchContext& context, const std::string& venv) {
  return !context.opened.readable.empty() && language::IsBelow(venv, context.opened.readable);
}

bool IsMissing(const std::string& venv) {
  std::error_code error;
  return !fs::exists(venv, error) || (fs::is_directory(venv, error) && fs::is_empty(venv, error));
}

Policy WithAbsoluteVenv(const confine::LaunchContext& context, Policy policy) {
  if (!policy.venv.empty()) policy.venv = language::Normalize(policy.venv, context.host.cwd);
  return policy;
}

async::Task<Result<KernelEnvironment>> Find(KernelEnvironments* environments, KernelPackages packages,
                                            run::StopToken stop) {
  if (environments == nullptr) co_return Err(ErrorCode::kUnsupported, "no environments are built here");
  auto found = co_await environments->Find(std::move(packages), stop);
  co_return found;
}

// The named environment, in place.
async::Task<Result<SessionPython>> UseVenv(confine::LaunchContext& context, KernelEnvironments* environments,
                                           const Policy& policy, run::StopToken stop) {
  SessionPython use;
  use.venv = policy.venv;
  use.python = policy.python;
  use.description = fmt::format("ipykernel of the virtual environment '{}'", policy.venv);
  if (!IsMissing(policy.venv)) co_return use;
  CO_TRY_VOID(CheckWritable(context, policy));
  auto base = co_await FindBase(context, policy, "");
  if (!base) co_return std::unexpected(std::move(base.error()));
  auto found = co_await Find(environments, {base->executable, "", ""}, stop);
  if (!found) {
    co_return std::unexpected(std::move(found.error())
                                  .WithContext(fmt::format("the virtual environment '{}' does not exist, and cannot "
                                                           "be made",
                                                           policy.venv)));
  }
  auto copy = [&] { return CopyVenv(found->venv, policy.venv); };
  auto copied = co_await context.planning->Run(copy);
  if (!copied) co_return std::unexpected(std::move(copied.error()));
  co_return use;
}

// What the fresh environment leads to.
struct Sources {
  std::vector<std::string> sites;
  std::vector<std::string> bins;
  std::string kernel;  // where ipykernel comes from, for people
  KernelEnvironment environment;
};

async::Task<Result<Sources>> FindSources(KernelEnvironments* environments, const Policy& policy, const Base& base,
                                         run::StopToken stop) {
  Sources sources;
  const bool has_kernel = HasIpykernel(base.sites);
  if (policy.system_packages) {
    sources.sites = base.sites;
    sources.bins.push_back(language::DirName(base.chosen));
  }
  if (policy.system_packages && has_kernel) {
    sources.kernel = fmt::format("the ipykernel of '{}'", base.chosen);
    co_return sources;
  }
  auto found = co_await Find(environments, {base.executable, policy.venv, ""}, stop);
  if (found) {
    sources.environment = std::move(*found);
    sources.kernel = "ipykernel";
    sources.sites.push_back(SitePackagesOf(sources.environment.venv));
    sources.bins.push_back(sources.environment.venv + "/bin");
    co_return sources;
  }
  if (found.error().code == ErrorCode::kClosed) co_return std::unexpected(std::move(found.error()));
  if (!has_kernel || !policy.venv.empty()) {
    co_return Err(ErrorCode::kNotFound,
                  "'{}' has no ipykernel, and none can be installed for it: {}; run '{} -m pip install ipykernel', "
                  "or name a kernel",
                  base.chosen, found.error().message, base.chosen);
  }
  sources.sites = base.sites;
  sources.kernel = fmt::format("the ipykernel of '{}' ({})", base.chosen, found.error().message);
  co_return sources;
}

}  // namespace

Status CheckWritable(const confine::LaunchContext& context, const Policy& policy) {
  if (!language::LiesBelowAny(policy.venv, context.HostFor(policy).guest_writable)) return {};
  return Err(ErrorCode::kPermission,
             "the virtual environment '{}' lies where guests may write, so nothing is installed into it: make it with "
             "'python3 -m venv {}' and '{}/bin/python -m pip install ipykernel'",
             policy.venv, policy.venv, policy.venv);
}

std::string KeptVenv(const confine::LaunchContext& context, const Policy& asked) {
  const std::string venv = WithAbsoluteVenv(context, asked).venv;
  return venv.empty() || IsFinished(context, venv) ? "" : venv;
}

async::Task<Result<SessionPython>> ChooseSessionPython(confine::LaunchContext& context,
                                                       KernelEnvironments* environments, Policy asked,
                                                       const std::string& directory, run::StopToken stop) {
  const Policy policy = WithAbsoluteVenv(context, std::move(asked));
  const bool finished = !policy.venv.empty() && IsFinished(context, policy.venv);
  if (!policy.venv.empty() && !finished) {
    auto used = co_await UseVenv(context, environments, policy, stop);
    co_return used;
  }
  auto base = co_await FindBase(context, policy, policy.venv);
  if (!base) co_return std::unexpected(std::move(base.error()));
  SessionPython use;
  use.venv = policy.venv;
  use.python = policy.python;
  // A jail shows whole directories, and the packages of a session go into its layer: it needs no directory of its own.
  if (policy.jail && policy.system_packages) {
    use.description = fmt::format("the ipykernel of '{}'", base->chosen);
    co_return use;
  }
  auto sources = co_await FindSources(environments, policy, *base, stop);
  if (!sources) co_return std::unexpected(std::move(sources.error()));
  use.environment = sources->environment.venv;
  use.lease = std::move(sources->environment.lease);
  if (policy.jail) {
    use.description = sources->kernel;
    if (!use.environment.empty()) {
      use.base = base->executable;
      use.sites = {SitePackagesOf(use.environment)};
      use.description += fmt::format(" in a cached environment of '{}'", base->executable);
      use.venv = use.environment;
      use.python.clear();
    }
    co_return use;
  }
  auto make = [&] { return MakeFreshVenv(directory, base->executable, base->version, sources->sites); };
  auto made = co_await context.planning->Run(make);
  if (!made) co_return std::unexpected(std::move(made.error()));
  use.venv = directory;
  use.python.clear();
  use.base = base->executable;
  use.version = base->version;
  use.sites = std::move(sources->sites);
  use.bins = std::move(sources->bins);
  use.fresh = true;
  use.description = fmt::format("{} in a fresh environment of '{}'", sources->kernel, base->executable);
  co_return use;
}

async::Task<Status> AddIpykernel(confine::LaunchContext& context, KernelEnvironments& environments, Policy asked,
                                 run::StopToken stop) {
  const Policy policy = WithAbsoluteVenv(context, std::move(asked));
  CO_TRY_VOID(CheckWritable(context, policy));
  auto base = co_await FindBase(context, policy, policy.venv);
  if (!base) co_return std::unexpected(std::move(base.error()));
  auto found = co_await environments.Find({base->executable, "", policy.venv}, stop);
  if (!found) co_return std::unexpected(std::move(found.error()));
  auto copy = [&] { return CopyMissingPackages(found->venv, policy.venv); };
  auto copied = co_await context.planning->Run(copy);
  co_return copied;
}

}  // namespace cella::executor
