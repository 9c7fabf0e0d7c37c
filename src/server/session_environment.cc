#include "server/session_environment.h"

#include <utility>

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

async::Task<Answer<EnvironmentLease>> PrepareEnvironment(Hub& hub, const std::string& client, SessionSpec* spec) {
  if (spec->environment.empty()) co_return nullptr;
  auto used = co_await hub.environments.Use(EnvironmentRequestFor(hub, client, spec->environment));
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

}  // namespace cella::server
