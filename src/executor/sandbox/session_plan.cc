#include "executor/sandbox/session_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "confine/env_vars.h"
#include "confine/jail_env_vars.h"
#include "confine/workspace.h"
#include "jail/protocol.h"
#include "language/host_path.h"
#include "language/visible.h"
#include "policy/keys.h"

namespace cella::executor {
namespace {

int64_t Stamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) < 0) return 0;
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// "3.11" of "3.11.7".
std::string MinorOf(const std::string& version) { return version.substr(0, version.find('.', version.find('.') + 1)); }

// Where packages are installed, by the layouts of CPython and of Debian.
std::vector<std::string> PackageDirectories(const language::Python& python) {
  const std::string minor = MinorOf(python.version);
  std::vector<std::string> paths = {python.executable};
  for (const std::string& prefix : {python.prefix, python.base_prefix}) {
    paths.push_back(prefix + "/pyvenv.cfg");
    paths.push_back(fmt::format("{}/lib/python{}/site-packages", prefix, minor));
    paths.push_back(fmt::format("{}/lib/python3/dist-packages", prefix));
    paths.push_back(fmt::format("{}/local/lib/python{}/dist-packages", prefix, minor));
  }
  return paths;
}

// Python takes each line for a directory, or for code; the latter is none of our business.
std::vector<std::string> ReadPathFiles(const std::vector<std::string>& directories) {
  constexpr uint64_t kMaxFile = 65536;
  std::vector<std::string> paths;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() != ".pth") continue;
      auto text = language::ReadDataFile(entry->path(), kMaxFile);
      std::istringstream lines(text ? *text : "");
      for (std::string line; std::getline(lines, line);) {
        line.erase(line.find_last_not_of(" \t\r/") + 1);
        if (line.starts_with('/')) paths.push_back(std::move(line));
      }
    }
  }
  return paths;
}

bool TooOld(const std::string& version) {
  int major = 0, minor = 0;
  return std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2 || std::pair(major, minor) < std::pair(3, 8);
}

// What the zygote's interpreter is made of and where it looks for modules. -I: no directory of a user, and none that a
// variable names.
language::CodePlaces CodeOf(const language::Python& python, const std::vector<std::string>& packages,
                            const std::vector<std::string>& module_paths) {
  language::CodePlaces code;
  code.places = {python.executable};  // no guest is given the runners: see GuardedPaths
  const std::string minor = MinorOf(python.version);
  for (const std::string& prefix : {python.prefix, python.base_prefix, python.exec_prefix, python.base_exec_prefix}) {
    code.places.push_back(prefix + "/pyvenv.cfg");
    for (const char* lib : {"lib", "lib64"}) {
      code.directories.push_back(fmt::format("{}/{}/python{}", prefix, lib, minor));
      code.directories.push_back(fmt::format("{}/{}/python{}/lib-dynload", prefix, lib, minor));
      code.directories.push_back(fmt::format("{}/{}/python{}/site-packages", prefix, lib, minor));
    }
    code.libraries.push_back(prefix + "/lib");
  }
  code.directories.insert(code.directories.end(), packages.begin(), packages.end());
  // Of the directories that .pth files name, the zygote's tree shows only these.
  std::ranges::copy_if(module_paths, std::back_inserter(code.directories),
                       [&](const std::string& path) { return language::IsShown(path, python.visible); });
  std::ranges::sort(code.directories);
  code.directories.erase(std::ranges::unique(code.directories).begin(), code.directories.end());
  return code;
}

std::vector<std::string> RunnerCommand(const std::string& language, const language::Plan& plan) {
  std::string tool = plan.commands.front().argv.front();
  std::string runners = confine::kRunnersInside;
  // -I: neither the guest's directory nor its environment variables decide what the runner imports.
  if (language == "python") return {tool, "-I", runners + "/python/cella_runner"};
  if (language == "javascript") return {tool, runners + "/javascript/runner.js"};
  return {tool, runners + "/bash/runner.bash"};
}

void Append(std::vector<std::string>* to, const std::vector<std::string>& from) {
  for (const std::string& entry : from) {
    if (std::ranges::find(*to, entry) == to->end()) to->push_back(entry);
  }
}

// Puts directories in front of a list of them, where each is once.
void Prepend(const char* name, std::vector<std::string> directories, confine::EnvVars* variables) {
  std::erase(directories, "");
  const std::string* before = variables->Find(name);
  std::istringstream rest(before == nullptr ? "" : *before);
  for (std::string each; std::getline(rest, each, ':');) {
    if (std::ranges::find(directories, each) == directories.end()) directories.push_back(each);
  }
  variables->Set(name, fmt::format("{}", fmt::join(directories, ":")));
}

std::string KeyOf(const run::GuestSpec& spec, bool (*has)(policy::Scope scope)) {
  std::string text;
  for (const policy::Key& key : policy::Keys()) {
    if (has(key.scope)) policy::AppendExact(key, spec, &text);
  }
  return text;
}

}  // namespace

Result<language::Plan> PlanLanguage(const confine::LaunchContext& context, const Policy& policy,
                                    const language::Block& block) {
  language::PlanOptions options;
  options.python = policy.python;
  options.venv = policy.venv;
  options.rootfs = policy.rootfs;
  options.host = context.HostFor(policy);
  return language::MakePlan(context.table, block, options);
}

Status CheckPython(const language::Plan& plan) {
  // On the host, versions are asked only where one was named.
  if (!plan.python || plan.python->version.empty() || !TooOld(plan.python->version)) return {};
  return Err(ErrorCode::kUnsupported, "sessions need Python 3.8 or later, and this is {} (--python)",
             plan.python->version);
}

bool SessionPlan::Shows(const std::string& directory) const {
  auto shows = [&](const std::string& shown) { return language::IsBelow(directory, shown); };
  return std::ranges::any_of(visible, shows) || language::IsBelow(directory, "/usr");
}

bool SessionPlan::Touches(const std::vector<std::string>& directories) const {
  if (directories.empty()) return false;
  std::vector<std::string> parts = visible;
  parts.insert(parts.end(), {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32", "/etc"});
  for (const auto& [name, interpreter] : interpreters) parts.push_back(interpreter.argv.front());
  for (const std::string& directory : directories) {
    if (language::LiesBelowAny(directory, parts)) return true;
  }
  return std::ranges::any_of(parts, [&](const auto& part) { return language::LiesBelowAny(part, directories); });
}

confine::EnvVars SessionPlan::EnvVarsFor(const Policy& policy) const {
  return confine::GuestEnvVars(base, merged, policy);
}

void ShowPackages(const std::string& directory, confine::EnvVars* variables) {
  ShowPackages(directory, confine::kRunnersInside, jail::kCallSocket, variables);
}

void ShowPackages(const std::string& directory, const std::string& runners, const std::string& call_socket,
                  confine::EnvVars* variables) {
  const std::string shims = runners + "/shims";
  // cella_runner/packages.py makes it, beside the call socket.
  const std::string link = std::filesystem::path(call_socket).parent_path() / ".cella-packages";
  Prepend("PATH", {shims + "/bin", directory.empty() ? "" : directory + "/bin", link + "/bin"}, variables);
  Prepend("PYTHONPATH", {shims, directory, link}, variables);
}

bool SessionPlan::Stale() const {
  return std::ranges::any_of(stamps, [](const auto& stamp) { return Stamp(stamp.first) != stamp.second; });
}

Result<SessionPlan> PlanSession(const confine::LaunchContext& context, const run::GuestSpec& spec, bool strict_memory,
                                uint32_t number) {
  const Policy& policy = spec.policy;
  SessionPlan session;
  TRY(session.identity, confine::ChooseIdentity(static_cast<uint32_t>(getpid()) + number));

  // Python must be there; the others are welcome.
  TRY(language::Plan python, PlanLanguage(context, policy, {"python", ""}));
  TRY_VOID(CheckPython(python));
  language::Plan all = python;
  session.interpreters.emplace("python", SessionPlan::Interpreter{python, RunnerCommand("python", python)});
  for (const char* name : {"javascript", "bash"}) {
    auto plan = PlanLanguage(context, policy, {name, ""});
    if (!plan) continue;
    Append(&all.visible, plan->visible);
    Append(&all.etc, plan->etc);
    Append(&all.path_dirs, plan->path_dirs);
    all.env.insert(all.env.end(), plan->env.begin(), plan->env.end());
    auto argv = RunnerCommand(name, *plan);
    session.interpreters.emplace(name, SessionPlan::Interpreter{std::move(*plan), std::move(argv)});
  }
  if (python.python) {
    const std::vector<std::string> packages = PackageDirectories(*python.python);
    for (const std::string& path : packages) session.stamps.emplace_back(path, Stamp(path));
    session.module_paths = ReadPathFiles(packages);
    session.code = CodeOf(*python.python, packages, session.module_paths);
    for (const Mount& mount : confine::ImportableMounts(policy, !spec.preload.empty(), session.module_paths)) {
      session.code.directories.push_back(mount.source);
    }
    const language::GuestDirectories::Snapshot guests = context.guest_directories->Take();
    session.guests_known = guests.version;
    session.no_fork = policy.rootfs.empty() ? language::WhyUntrusted(session.code, guests) : "another root tree";
  } else {
    session.no_fork = "another root tree";
  }

  jail::JailSpec& jail = session.tree.spec();
  jail.flags |= jail::kSession;
  session.identity.Describe(&jail);
  if (policy.network == Network::kHost) jail.flags |= jail::kHostNetwork;
  if (strict_memory) jail.flags |= jail::kStrictMemory;
  session.tree.SetHostname("cella");
  TRY_VOID(confine::DescribeRootTree(all, policy, &session.tree));
  TRY_VOID(session.tree.AddMount(context.runners, confine::kRunnersInside, 0));
  // All layers, under names that a guest cannot list or guess: each session is told its own. So adding a package to a
  // live session needs no mount, and every jail of the session finds it.
  if (!context.layers.empty()) TRY_VOID(session.tree.AddMount(context.layers, confine::kLayersInside, 0));

  session.base = confine::JailEnvVars(all);
  // Threads rule out a checkpoint, and these libraries start one per processor by default.
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) session.base.Set(name, "1");
  session.visible = all.visible;
  session.merged = std::move(all);
  return session;
}

void ShowNames(const std::vector<std::string>& spaces, const std::string& runners, confine::EnvVars* variables) {
  if (std::ranges::find(spaces, "artifacts") == spaces.end()) return;
  variables->Set("CELLA_SPACES", fmt::format("{}", fmt::join(spaces, ",")));
  Prepend("PYTHONPATH", {runners + "/names"}, variables);
}

std::string PlanKey(const run::GuestSpec& spec, const std::vector<confine::MountPoint>& points) {
  std::string text = KeyOf(spec, [](policy::Scope scope) { return scope == policy::Scope::kPlan; });
  auto add = [&text](std::string_view part) {
    text += part;
    text += '\0';
  };
  add(spec.tenant.client);
  // Where they are, not what they hold: a jail comes with its own.
  for (const confine::MountPoint& point : points) {
    add(point.target);
    add(point.mode == MountMode::kReadWrite ? "rw" : "ro");
    add(point.is_file ? "file" : "directory");
  }
  return text;
}

std::string PoolKey(const run::GuestSpec& spec) {
  std::string text = KeyOf(spec, [](policy::Scope scope) { return scope != policy::Scope::kOutside; });
  text += spec.tenant.client;
  text += '\0';
  for (const std::string& space : spec.spaces) {
    text += space;
    text += '\0';
  }
  return text;
}

bool IsInterchangeable(const run::GuestSpec& spec) {
  const auto is_own = [](policy::Scope scope) { return scope == policy::Scope::kOwn; };
  return KeyOf(spec, is_own) == KeyOf({}, is_own);
}

}  // namespace cella::executor
