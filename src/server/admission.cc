#include "server/admission.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "language/host_path.h"
#include "language/python_search.h"
#include "language/visible.h"
#include "policy/names.h"
#include "policy/read.h"
#include "server/container_admission.h"
#include "server/json_input.h"
#include "storage/service.h"

namespace cella::server {
namespace {

using Done = Answer<void>;

constexpr const char* kAskOperator = "the server's configuration decides; ask its operator";

class Admission {
 public:
  Admission(const policy::Request& request, const Config& config, std::string_view client)
      : request_(request), config_(config), client_(client), spec_(config.defaults) {}

  Answer<SessionSpec> Run() {
    TRY_VOID(Where());
    TRY_VOID(Packages());
    TRY_VOID(Values());
    TRY_VOID(Limits());
    TRY_VOID(Network());
    TRY_VOID(Mounts());
    TRY_VOID(Python());
    TRY_VOID(Storage());
    TRY_VOID(Environment());
    Variables();
    if (!Takes("preload")) spec_.preload.clear();  // of other executors
    if (Takes("container.image")) {
      const auto given = [this](std::string_view key) { return Given(key); };
      TRY_VOID(AdmitContainer(request_.spec.policy.container, given, config_, &spec_.policy));
    }
    return std::move(spec_);
  }

  // An environment that is to be made.
  Answer<EnvironmentChoice> NewEnvironment(EnvironmentChoice choice) const {
    if (!config_.allow.environments && !config_.allow.whole_machine) {
      return Forbidden("environment: this server makes no environments for its clients",
                       "name one that the operator made, or ask the operator");
    }
    if (choice.python.empty()) {
      const Policy& defaults = config_.defaults.policy;
      choice.python = defaults.venv.empty() ? defaults.python : defaults.venv + "/bin/python";
    } else {
      TRY(choice.python, AllowedPython("environment.python", choice.python));
    }
    return choice;
  }

 private:
  bool Given(std::string_view key) const { return request_.given.Has(key); }
  bool Takes(std::string_view key) const { return policy::Takes(spec_.executor, key); }

  Done Where() {
    if (Given("executor")) spec_.executor = request_.spec.executor;
    if (std::ranges::find(config_.allow.executors, spec_.executor) == config_.allow.executors.end()) {
      const bool is_jailed = Given("jail") && request_.spec.policy.jail;
      const bool in_jail_only = config_.allow.jailed_kernels && Takes("jail");
      if (!in_jail_only || !is_jailed) {
        return Forbidden(fmt::format("executor: this server does not allow '{}'{}", ToString(spec_.executor),
                                     in_jail_only ? " without 'jail: true'" : ""),
                         kAskOperator);
      }
    }
    if (const policy::Key* key = policy::FindMeaningless(request_.given, spec_.executor)) {
      return Invalid(fmt::format("{}: the {} executor has no such thing", key->name, ToString(spec_.executor)),
                     fmt::format("use the executor {}", policy::NamesOf(key->executors)));
    }
    return {};
  }

  Done Packages() {
    const bool permitted = config_.allow.runtime_deps || config_.allow.whole_machine;
    if (Given("allow_runtime_deps") && request_.spec.runtime_deps && !permitted) {
      return Forbidden("allow_runtime_deps: this server does not allow it", kAskOperator);
    }
    if (!request_.spec.deps.empty() && !permitted) {
      return Forbidden("deps: this server installs no packages for its clients", kAskOperator);
    }
    spec_.deps = request_.spec.deps;
    spec_.runtime_deps = permitted && request_.spec.runtime_deps;
    return {};
  }

  // Those that need no rule of their own. What was asked for counts as asked: it is refused where it cannot be
  // enforced.
  Done Values() {
    for (const policy::Key& key : policy::Keys()) {
      if (!request_.given.Has(key)) continue;
      if (key.ask == policy::Ask::kUpToMaximum) TRY_VOID(Bound(key, request_.spec, config_.maxima));
      if (key.ask == policy::Ask::kAllowed && key.kind == policy::Kind::kPath) {
        const auto field = std::get<policy::At<std::string>>(key.field);
        TRY(*field(spec_), AllowedPath(key.name, policy::Show(key, request_.spec)));
      } else if (key.ask != policy::Ask::kAllowed && key.kind != policy::Kind::kVariables) {
        policy::Copy(key, request_.spec, &spec_);
      }
    }
    return {};
  }

  static Done Bound(const policy::Key& key, const SessionSpec& spec, const SessionSpec& maxima) {
    if (!policy::Exceeds(key, spec, maxima)) return {};
    return Forbidden(fmt::format("{}: {} is more than this server allows", key.name, policy::Show(key, spec)),
                     fmt::format("at most {}", policy::Show(key, maxima)));
  }

  Done Limits() {
    // To name no share must not be the way around the largest.
    if (!spec_.policy.limits.cpus) spec_.policy.limits.cpus = config_.maxima.policy.limits.cpus;
    // It could never start, so "later" would be the wrong answer.
    SessionSpec quota;
    if (auto memory = config_.QuotaOf(client_).memory) {
      quota.policy.limits.memory.value = *memory;
      return Bound(*policy::Find("limits.memory"), spec_, quota);
    }
    return {};
  }

  Done Network() {
    if (!IsConfined(spec_)) {
      // An operator who allowed this executor has allowed its network.
      if (Given("network") && request_.spec.policy.network == Network::kNone) {
        return Invalid(fmt::format("network: the {} executor cannot enforce 'none'", ToString(spec_.executor)),
                       "use the executor sandbox");
      }
      spec_.policy.network = Network::kHost;
      return {};
    }
    if (Given("network")) spec_.policy.network = request_.spec.policy.network;
    if (Takes("container.image")) return {};  // AdmitContainer has the rule
    const auto network = spec_.policy.network;
    if (network == Network::kBridge) {
      return Invalid("network: 'bridge' is for the executor container");
    }
    if (network != Network::kNone && !config_.allow.network_host) {
      return Forbidden(fmt::format("network: this server does not allow '{}'", ToString(network)), kAskOperator);
    }
    return {};
  }

  static std::unexpected<ApiError> NotAllowed(std::string_view key, std::string_view path) {
    return Forbidden(fmt::format("{}: this server does not allow '{}'", key, policy::Shown(path)), kAskOperator);
  }

  // A real path in or below an allowed directory. Guests may have written everywhere in those, so no link there is
  // followed; and what lies elsewhere is refused in the same words whether it exists or not, so that
  // clients cannot explore the machine.
  Answer<std::string> AllowedPath(std::string_view key, const std::string& path) {
    if (config_.allow.whole_machine) {
      // A kernel's environment is made when it is missing.
      if (Takes("kernel") && key == "venv") {
        auto place = language::ResolveHostDirectoryForCreation(path, {});
        if (place) return std::move(*place);
        return Invalid(fmt::format("{}: {}", key, place.error().message));
      }
      if (std::string real = language::RealPath(path); !real.empty()) return real;
      return Invalid(fmt::format("{}: '{}' does not exist", key, policy::Shown(path)));
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

  Done Mounts() {
    const std::vector<Mount>& mounts = request_.spec.policy.mounts;
    for (size_t i = 0; i < mounts.size(); ++i) {
      Mount mount = mounts[i];
      TRY(mount.source, AllowedPath(fmt::format("mounts[{}].source", i), mount.source));
      spec_.policy.mounts.push_back(std::move(mount));
    }
    return {};
  }

  Done Python() {
    Policy& policy = spec_.policy;
    const bool given_venv = Given("venv");
    if (given_venv) policy.python.clear();  // a default, which has nothing to do with this environment
    if (Takes("kernel") && !given_venv && !policy.venv.empty()) {
      // Kernels have environments of their own: a default chooses the interpreter alone.
      policy.python = policy.venv + "/bin/python";
      policy.venv.clear();
    }
    if (!Given("python")) return {};
    const std::string& python = request_.spec.policy.python;
    const bool is_path = !language::ParsePythonVersion(python);
    if (given_venv && is_path && python.starts_with('/')) {
      return Invalid("venv: a virtual environment has its own interpreter; leave 'python' out");
    }
    TRY(policy.python, AllowedPython("python", python));
    if (!given_venv) policy.venv.clear();
    return {};
  }

  // A version, or an interpreter that the operator listed.
  Answer<std::string> AllowedPython(std::string_view key, const std::string& python) const {
    if (language::ParsePythonVersion(python)) return python;
    // The server itself runs an interpreter to ask it about itself: not any program that happens to be on PATH, and
    // none that a guest may have written.
    if (!python.starts_with('/')) {
      return Invalid(
          fmt::format("{}: '{}' is neither a version such as 3.12 nor an absolute path", key, policy::Shown(python)));
    }
    std::string path = language::Normalize(python, "/");
    const bool listed = std::ranges::any_of(config_.allow.pythons, [&](const std::string& dir) {
      return language::IsBelow(path, language::Normalize(dir, "/"));
    });
    const bool allowed = listed || config_.allow.whole_machine;
    if (!allowed || language::LiesBelowAny(path, config_.allow.mounts)) return NotAllowed(key, python);
    return path;
  }

  Done Environment() {
    if (!Given("environment")) return {};
    for (const char* other : {"python", "venv", "rootfs"}) {
      if (!Given(other)) continue;
      return Invalid(fmt::format("environment: it has its own Python; leave '{}' out", other));
    }
    TRY(spec_.environment, SessionEnvironment(request_.spec.environment));
    // What the defaults say of another Python does not count.
    Policy& policy = spec_.policy;
    policy.venv.clear();
    policy.rootfs.clear();
    policy.python.clear();
    if (!Given("preload")) spec_.preload.clear();
    return {};
  }

  Done Storage() {
    const std::string& wanted = request_.spec.storage;
    if (wanted.empty()) return {};
    if (config_.allow.whole_machine) {
      if (!wanted.starts_with('/')) {
        return Invalid(fmt::format("storage: '{}' is not an absolute path", policy::Shown(wanted)));
      }
      auto real = language::ResolveHostDirectoryForCreation(wanted, GuestWritable(spec_.policy));
      if (!real) return Invalid("storage: " + real.error().message);
      spec_.storage = std::move(*real);
    } else {
      if (config_.storage.directory.empty()) {
        return Forbidden("storage: this server has no storages for its clients", kAskOperator);
      }
      if (!policy::IsName(wanted)) {
        return Invalid(fmt::format("storage: '{}' is not a name: letters, digits, '.', '_' and '-', at most 64",
                                   policy::Shown(wanted)));
      }
      const std::string client(client_);
      const std::string owner = policy::IsName(client) ? client : "client-" + Sha256Hex(client).substr(0, 32);
      spec_.storage = fmt::format("{}/{}/{}", config_.storage.directory, owner, wanted);
    }
    if (std::string why = storage::WhyWritable(spec_.storage, GuestWritable(spec_.policy)); !why.empty()) {
      return Forbidden("storage: " + why);
    }
    return {};
  }

  // A name alone means an environment that exists already.
  Answer<EnvironmentChoice> SessionEnvironment(EnvironmentChoice choice) const {
    if (!choice.name.empty()) return choice;
    return NewEnvironment(std::move(choice));
  }

  void Variables() {
    auto& env = spec_.policy.env;
    for (const auto& [name, value] : request_.spec.policy.env) {
      auto existing = std::ranges::find(env, name, &std::pair<std::string, std::string>::first);
      if (existing == env.end()) {
        env.emplace_back(name, value);
      } else {
        existing->second = value;
      }
    }
  }

  const policy::Request& request_;
  const Config& config_;
  std::string_view client_;
  std::vector<std::string> allowed_;  // real paths
  SessionSpec spec_;
};

}  // namespace

Answer<policy::Request> ReadPolicy(const nlohmann::json& value) {
  if (!value.is_object()) return Invalid("the policy is not a JSON object");
  auto read = policy::ReadDocument(value);
  if (!read) return Invalid(read.error().Text());
  return std::move(*read);
}

Answer<policy::Request> ParsePolicy(std::string_view body) {
  TRY(nlohmann::json parsed, ParseJsonObject(body));
  return ReadPolicy(parsed);
}

Answer<EnvironmentChoice> AdmitEnvironment(const EnvironmentChoice& choice, const Config& config) {
  const policy::Request request;
  return Admission(request, config, "").NewEnvironment(choice);
}

Answer<SessionSpec> Admit(const policy::Request& request, const Config& config, std::string_view client) {
  return Admission(request, config, client).Run();
}

}  // namespace cella::server
