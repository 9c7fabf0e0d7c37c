#include "server/admission.h"

#include <algorithm>

#include "base/units.h"
#include "language/host_path.h"
#include "language/python_search.h"
#include "language/visible.h"
#include "server/names.h"

namespace cella::server {
namespace {

using Done = Answer<void>;

constexpr const char* kAskOperator = "the server's configuration decides; ask whoever runs it";

class Admission {
 public:
  Admission(const PolicyDocument& document, const Config& config, std::string_view client)
      : document_(document), config_(config), client_(client) {}

  Answer<SessionSpec> Run() {
    spec_.name = document_.name;
    spec_.labels = document_.labels;
    spec_.policy = config_.defaults.policy;
    spec_.preload = document_.preload.value_or(config_.sessions.preload);
    spec_.checkpoint = document_.checkpoint.value_or(config_.defaults.checkpoint);
    spec_.policy.best_effort = document_.best_effort.value_or(spec_.policy.best_effort);
    TRY_VOID(Where());
    TRY_VOID(LimitsOfRuns());
    TRY_VOID(LimitsOfSession());
    TRY_VOID(Paths());
    TRY_VOID(Python());
    Variables();
    return std::move(spec_);
  }

 private:
  Done Where() {
    spec_.executor = document_.executor.value_or(config_.defaults.executor);
    if (std::ranges::find(config_.allow.executors, spec_.executor) == config_.allow.executors.end()) {
      return Forbidden(fmt::format("executor: this server does not allow '{}'", ToString(spec_.executor)),
                       kAskOperator);
    }
    if (spec_.executor == ExecutorKind::kLocal) {
      // Whoever allowed this executor has allowed its network.
      if (document_.network == Network::kNone) {
        return Invalid("network: the local executor cannot enforce 'none'", "use the executor sandbox");
      }
      spec_.policy.network = Network::kHost;
      return {};
    }
    spec_.policy.network = document_.network.value_or(spec_.policy.network);
    if (spec_.policy.network == Network::kHost && !config_.allow.network_host) {
      return Forbidden("network: this server does not allow 'host'", kAskOperator);
    }
    return {};
  }

  template <typename T, typename Format>
  static Done Bound(std::string_view key, const T& asked, const T& maximum, Format format) {
    if (asked <= maximum) return {};
    return Forbidden(fmt::format("{}: {} is more than this server allows", key, format(asked)),
                     fmt::format("at most {}", format(maximum)));
  }

  // What was asked for counts as asked: it is refused where it cannot be enforced.
  template <typename T, typename Format>
  static Done Take(std::string_view key, const std::optional<T>& asked, const T& maximum, Limit<T>& limit,
                   Format format) {
    if (!asked) return {};
    TRY_VOID(Bound(key, *asked, maximum, format));
    limit = {*asked, true};
    return {};
  }

  Done LimitsOfRuns() {
    const auto& asked = document_.limits;
    const auto& most = config_.maxima;
    Limits& limits = spec_.policy.limits;
    auto number = [](uint64_t value) { return fmt::format("{}", value); };
    TRY_VOID(Take("limits.timeout", asked.timeout, most.timeout, limits.timeout, FormatDuration));
    TRY_VOID(Take("limits.cpu_time", asked.cpu_time, most.cpu_time, limits.cpu_time, FormatDuration));
    TRY_VOID(Take("limits.memory", asked.memory, most.memory, limits.memory, FormatByteSize));
    TRY_VOID(Take("limits.pids", asked.pids, most.pids, limits.pids, number));
    TRY_VOID(Take("limits.disk", asked.disk, most.disk, limits.disk, FormatByteSize));
    TRY_VOID(Take("limits.open_files", asked.open_files, most.open_files, limits.open_files, number));
    TRY_VOID(Take("limits.output", asked.output, most.output, limits.output, FormatByteSize));
    if (asked.cpus && most.cpus) {
      TRY_VOID(Bound("limits.cpus", *asked.cpus, *most.cpus, [](double value) { return fmt::format("{}", value); }));
    }
    if (asked.cpus) limits.cpus = asked.cpus;
    // To name no share must not be the way around the largest.
    if (!limits.cpus) limits.cpus = most.cpus;
    // It could never start, so "later" would be the wrong answer.
    const QuotaLimits& quota = config_.QuotaOf(client_);
    if (quota.memory) TRY_VOID(Bound("limits.memory", limits.memory.value, *quota.memory, FormatByteSize));
    return {};
  }

  Done LimitsOfSession() {
    spec_.idle_timeout = document_.idle_timeout.value_or(config_.sessions.idle_timeout);
    spec_.max_lifetime = document_.max_lifetime.value_or(config_.sessions.max_lifetime);
    TRY_VOID(Bound("idle_timeout", spec_.idle_timeout, config_.maxima.idle_timeout, FormatDuration));
    return Bound("max_lifetime", spec_.max_lifetime, config_.maxima.max_lifetime, FormatDuration);
  }

  static std::unexpected<ApiError> NotAllowed(std::string_view key, std::string_view path) {
    return Forbidden(fmt::format("{}: this server does not allow '{}'", key, Shown(path)), kAskOperator);
  }

  // A real path in or below an allowed directory. Guests may have written everywhere in those, so no link there is
  // followed; and what lies elsewhere is refused in the same words whether it exists or not, so that nobody can feel
  // their way through the machine.
  Answer<std::string> AllowedPath(std::string_view key, const std::string& path) {
    if (config_.allow.whole_machine) {
      if (std::string real = language::RealPath(path); !real.empty()) return real;
      return Invalid(fmt::format("{}: '{}' does not exist", key, Shown(path)));
    }
    if (config_.allow.mounts.empty()) return NotAllowed(key, path);
    if (allowed_.empty()) {
      for (const std::string& dir : config_.allow.mounts) {
        if (std::string real = language::RealPath(dir); !real.empty()) allowed_.push_back(std::move(real));
      }
    }
    auto is_allowed = [&](const std::string& each) {
      return std::ranges::any_of(allowed_, [&](const std::string& dir) { return language::IsBelow(each, dir); });
    };
    auto real = language::ResolveHostPath(path, allowed_);
    if (real && is_allowed(*real)) return std::move(*real);
    if (!real && is_allowed(language::Normalize(path, "/"))) {
      return Invalid(fmt::format("{}: {}", key, real.error().message));
    }
    return NotAllowed(key, path);
  }

  Done Paths() {
    Policy& policy = spec_.policy;
    if (document_.workdir) {
      TRY(policy.workdir, AllowedPath("workdir", *document_.workdir));
    }
    if (document_.rootfs) {
      TRY(policy.rootfs, AllowedPath("rootfs", *document_.rootfs));
    }
    for (size_t i = 0; i < document_.mounts.size(); ++i) {
      Mount mount = document_.mounts[i];
      TRY(mount.source, AllowedPath(fmt::format("mounts[{}].source", i), mount.source));
      policy.mounts.push_back(std::move(mount));
    }
    return {};
  }

  Done Python() {
    Policy& policy = spec_.policy;
    if (document_.venv) {
      TRY(policy.venv, AllowedPath("venv", *document_.venv));
      policy.python.clear();  // a default, which has nothing to do with this environment
    }
    if (!document_.python) return {};
    const std::string& python = *document_.python;
    if (language::ParsePythonVersion(python)) {
      if (!document_.venv) policy.venv.clear();
      policy.python = python;
      return {};
    }
    // The server itself runs an interpreter to ask it about itself: not any program that happens to be on PATH, and
    // none that a guest may have written.
    if (!python.starts_with('/')) {
      return Invalid(fmt::format("python: '{}' is neither a version such as 3.12 nor an absolute path", Shown(python)));
    }
    if (document_.venv) return Invalid("venv: a virtual environment has its own interpreter; leave 'python' out");
    std::string path = language::Normalize(python, "/");
    const bool listed = std::ranges::any_of(config_.allow.pythons, [&](const std::string& dir) {
      return language::IsBelow(path, language::Normalize(dir, "/"));
    });
    const bool allowed = listed || config_.allow.whole_machine;
    if (!allowed || language::LiesBelowAny(path, config_.allow.mounts)) return NotAllowed("python", python);
    policy.venv.clear();
    policy.python = std::move(path);
    return {};
  }

  void Variables() {
    auto& env = spec_.policy.env;
    for (const auto& [name, value] : document_.env) {
      auto existing = std::ranges::find(env, name, &std::pair<std::string, std::string>::first);
      if (existing == env.end()) {
        env.emplace_back(name, value);
      } else {
        existing->second = value;
      }
    }
  }

  const PolicyDocument& document_;
  const Config& config_;
  std::string_view client_;
  std::vector<std::string> allowed_;  // real paths
  SessionSpec spec_;
};

}  // namespace

Answer<SessionSpec> Admit(const PolicyDocument& document, const Config& config, std::string_view client) {
  return Admission(document, config, client).Run();
}

}  // namespace cella::server
