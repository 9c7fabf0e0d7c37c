#include "executor/sandbox/session_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "executor/environment.h"
#include "executor/sandbox/guest_environment.h"
#include "executor/workspace.h"
#include "language/host_path.h"
#include "language/tool.h"
#include "language/visible.h"

namespace cella::executor {
namespace {

int64_t Stamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) < 0) return 0;
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// Where packages are installed, by the layouts of CPython and of Debian.
std::vector<std::string> PackageDirectories(const language::Python& python) {
  std::string minor = python.version.substr(0, python.version.find('.', python.version.find('.') + 1));
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

// A zygote runs what its environment holds before any guest does, with rights over the jails beside it.
std::string WhyNoFork(const language::Python& python, const Policy& policy) {
  if (!policy.rootfs.empty()) return "another root tree";
  for (const std::string& writable : GuestWritable(policy)) {
    for (const std::string& path : {python.executable, python.prefix, python.base_prefix}) {
      if (language::IsBelow(path, writable)) return "guests may write to its environment";
    }
  }
  return "";
}

std::vector<std::string> RunnerCommand(const std::string& language, const language::Plan& plan) {
  std::string tool = plan.commands.front().argv.front();
  std::string runners = kRunnersInside;
  // -I: neither the guest's directory nor its environment has a say in what the runner imports.
  if (language == "python") return {tool, "-I", runners + "/python/cella_runner"};
  if (language == "javascript") return {tool, runners + "/javascript/runner.js"};
  return {tool, runners + "/bash/runner.bash"};
}

// Beside the directories that its guests may write to, the search for interpreters may come to another end than
// without.
bool AltersSearch(const LaunchContext& context, const Policy& policy) {
  const std::vector<std::string> writable = GuestWritable(policy);
  if (writable.empty()) return false;
  const language::HostEnv beside = context.HostFor(policy);
  if (beside.ForAsking() != context.host.ForAsking() ||
      beside.DirectoryForAsking() != context.host.DirectoryForAsking()) {
    return true;
  }
  // A name on PATH may be a link into one of them.
  const std::string named = policy.python.starts_with('/') ? "python" : "python" + policy.python;
  for (std::string_view name : {"python3", "python", named.c_str(), "node", "nodejs", "bash"}) {
    for (const std::string& program : language::FindOnPath(name, context.host.path)) {
      if (language::LiesBelowAny(program, writable)) return true;
    }
  }
  return false;
}

void Append(std::vector<std::string>* to, const std::vector<std::string>& from) {
  for (const std::string& entry : from) {
    if (std::ranges::find(*to, entry) == to->end()) to->push_back(entry);
  }
}

}  // namespace

Result<language::Plan> PlanLanguage(const LaunchContext& context, const Policy& policy, const language::Block& block) {
  language::PlanOptions options;
  options.python = policy.python;
  options.venv = policy.venv;
  options.rootfs = policy.rootfs;
  options.host = context.HostFor(policy);
  return language::MakePlan(context.table, block, options);
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

Environment SessionPlan::EnvironmentFor(const Policy& policy) const { return GuestEnvironment(base, merged, policy); }

bool SessionPlan::Stale() const {
  return std::ranges::any_of(stamps, [](const auto& stamp) { return Stamp(stamp.first) != stamp.second; });
}

Result<SessionPlan> PlanSession(const LaunchContext& context, const SessionRequest& request, bool strict_memory,
                                uint32_t number) {
  const Policy& policy = request.policy;
  SessionPlan session;
  TRY(session.identity, ChooseIdentity(static_cast<uint32_t>(getpid()) + number));

  // Python must be there; the others are welcome.
  TRY(language::Plan python, PlanLanguage(context, policy, {"python", ""}));
  if (python.python && TooOld(python.python->version)) {
    return Err(ErrorCode::kUnsupported, "sessions need Python 3.8 or later, and this is {} (--python)",
               python.python->version);
  }
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
    session.no_fork = WhyNoFork(*python.python, policy);
    const std::vector<std::string> packages = PackageDirectories(*python.python);
    for (const std::string& path : packages) session.stamps.emplace_back(path, Stamp(path));
    if (!policy.mounts.empty()) session.module_paths = ReadPathFiles(packages);
  } else {
    session.no_fork = "another root tree";
  }

  jail::JailSpec& spec = session.tree.spec();
  spec.flags |= jail::kSession;
  session.identity.Describe(&spec);
  if (policy.network == Network::kHost) spec.flags |= jail::kHostNetwork;
  if (strict_memory) spec.flags |= jail::kStrictMemory;
  session.tree.SetHostname("cella");
  TRY_VOID(DescribeRootTree(all, policy, &session.tree));
  TRY_VOID(session.tree.AddMount(context.runners, kRunnersInside, 0));

  session.base = SandboxEnvironment(all);
  // Threads rule out a checkpoint, and these libraries start one per processor if nobody says otherwise.
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) session.base.Set(name, "1");
  session.visible = all.visible;
  session.merged = std::move(all);
  return session;
}

std::string PlanKey(const LaunchContext& context, const SessionRequest& request,
                    const std::vector<MountPoint>& points) {
  const Policy& policy = request.policy;
  std::string key;
  auto add = [&key](std::string_view part) {
    key += part;
    key += '\0';
  };
  add(policy.python);
  add(policy.venv);
  add(policy.rootfs);
  add(policy.network == Network::kHost ? "host" : "none");
  // Where they are, not what they hold: a jail comes with its own.
  for (const MountPoint& point : points) {
    add(point.target);
    add(point.mode == MountMode::kReadWrite ? "rw" : "ro");
    add(point.is_file ? "file" : "directory");
  }
  add("writable");
  if (AltersSearch(context, policy)) {
    for (const std::string& directory : GuestWritable(policy)) add(directory);
  }
  add("preload");
  for (const std::string& module : request.preload) add(module);
  return key;
}

}  // namespace cella::executor
