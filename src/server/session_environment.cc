#include "server/session_environment.h"

#include <utility>

#include "base/json.h"
#include "engine/engine.h"
#include "environment/script_block.h"
#include "language/detect.h"
#include "policy/keys.h"
#include "server/answer.h"
#include "server/quota.h"

namespace cella::server {

ApiError EnvironmentFailed(const Error& error) {
  ApiError failed = ToApiError(error);
  if (error.code == ErrorCode::kExhausted) return failed;
  failed.code = "environment_failed";
  // The index, the network or the installer.
  if (error.code == ErrorCode::kUnsupported) failed.status = 502;
  return failed;
}

installer::Permit BuildPermitFor(Hub& hub, const std::string& client) {
  if (hub.config.allow.whole_machine) return {};
  return [&hub, client]() -> Result<std::shared_ptr<void>> {
    auto share = hub.quota.TakeBuild(client);
    if (!share) return Err(ErrorCode::kExhausted, "{}", share.error().message);
    return std::make_shared<Quota::Share>(std::move(*share));
  };
}

run::Tenant TenantOf(const Hub& hub, const std::string& client, const SessionSpec& spec) {
  if (hub.config.allow.whole_machine) return {};
  const SessionSpec& defaults = hub.config.defaults;
  const bool chosen =
      !spec.environment.empty() || spec.preload != defaults.preload || spec.policy.venv != defaults.policy.venv;
  if (!chosen) return {};
  return {client, hub.config.QuotaOf(client).interpreters};
}

std::string EnvironmentOwner(const Hub& hub, const std::string& client) {
  return hub.config.allow.whole_machine ? "" : client;
}

installer::EnvironmentRequest EnvironmentRequestFor(Hub& hub, const std::string& client, EnvironmentChoice choice) {
  const QuotaLimits& limits = hub.config.QuotaOf(client);
  installer::EnvironmentRequest request;
  request.owner = EnvironmentOwner(hub, client);
  request.choice = std::move(choice);
  request.bounds = {limits.environments, limits.environment_disk};
  request.permit = BuildPermitFor(hub, client);
  return request;
}

namespace {

async::Task<Answer<EnvironmentLease>> Use(Hub& hub, installer::EnvironmentRequest request, SessionSpec* spec) {
  auto used = co_await hub.environments.Use(std::move(request));
  if (!used) {
    ApiError failed = EnvironmentFailed(used.error());
    // The route exists; what it names does not.
    if (failed.status == 404) failed.status = 400;
    failed.message = "environment: " + failed.message;
    co_return std::unexpected(std::move(failed));
  }
  spec->policy.venv = used->ready.venv;
  if (spec->preload.empty() && policy::Takes(spec->executor, "preload")) spec->preload = std::move(used->preload);
  co_return std::make_shared<const environment::Ready>(std::move(used->ready));
}

// Python that decides on its packages itself, where the client may install some, and the policy names no others.
bool ReadsScriptBlocks(const Hub& hub, const SessionSpec& spec) {
  const bool on_host = policy::Takes(spec.executor, "environment");
  return on_host && spec.runtime_deps && (hub.config.allow.runtime_deps || hub.config.allow.whole_machine);
}

}  // namespace

async::Task<Answer<EnvironmentLease>> PrepareEnvironment(Hub& hub, const std::string& client, SessionSpec* spec) {
  if (spec->environment.empty()) co_return nullptr;
  auto lease = co_await Use(hub, EnvironmentRequestFor(hub, client, spec->environment), spec);
  co_return lease;
}

async::Task<Answer<EnvironmentLease>> PrepareProgram(Hub& hub, const std::string& client, const RunSpec& run,
                                                     SessionSpec* spec) {
  const engine::Engine* engine = hub.engines.Find(spec->executor);
  if (engine != nullptr && ReadsScriptBlocks(hub, *spec)) {
    const Block& block = run.blocks.front();
    auto language =
        language::Detect(engine->table, {.language = block.language, .file_name = run.file, .code = block.code});
    if (language && (*language)->name == "python") {
      auto read = [&] { return environment::ReadScriptBlock(block.code); };
      Result<environment::ScriptReading> reading;
      if (block.code.size() <= kReadAtOnce) {
        reading = read();
      } else {
        reading = co_await hub.work.Run(read);
      }
      if (!reading) co_return Invalid(reading.error().message);
      if (reading->block) {
        const Policy& policy = spec->policy;
        const Policy& defaults = hub.config.defaults.policy;
        const bool chosen = !spec->environment.empty() || policy.venv != defaults.venv ||
                            policy.python != defaults.python || !policy.rootfs.empty();
        if (chosen) {
          co_return Invalid(
              "the script names its packages (PEP 723), and the policy names an environment or a Python: leave one "
              "out");
        }
        for (const auto& package : reading->block->packages) spec->environment.packages.push_back(package.text);
        spec->environment.python = defaults.venv.empty() ? defaults.python : defaults.venv + "/bin/python";
        installer::EnvironmentRequest request = EnvironmentRequestFor(hub, client, spec->environment);
        request.requires_python = reading->block->requires_python;
        // The default gives way where the script's Python is another one.
        if (!request.requires_python.empty()) request.choice.python.clear();
        spec->policy.python.clear();
        auto lease = co_await Use(hub, std::move(request), spec);
        co_return lease;
      }
    }
  }
  auto lease = co_await PrepareEnvironment(hub, client, spec);
  co_return lease;
}

}  // namespace cella::server
