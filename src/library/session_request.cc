#include "library/session_request.h"

#include "library/host.h"
#include "policy/keys.h"
#include "server/admission.h"

namespace cella::library {
namespace {

constexpr auto kLong = std::chrono::hours(24 * 365);  // a session ends with its handle
constexpr size_t kQueue = 4096;

server::Config Everything() {
  server::Config config;
  config.allow.executors.clear();
  for (const ExecutorRow& row : kExecutors) config.allow.executors.push_back(row.kind);
  config.allow.network_host = true;
  config.allow.whole_machine = true;
  config.defaults.idle_timeout = kLong;
  config.defaults.max_lifetime = kLong;
  config.maxima = policy::UnlimitedMaxima();
  return config;
}

Error FromApi(const server::ApiError& error) {
  return {ErrorCode::kInvalid, error.hint.empty() ? error.message : error.message + ": " + error.hint, 0};
}

}  // namespace

Result<SessionRequest> ReadSessionRequest(std::string_view policy) {
  auto asked = server::ParsePolicy(policy);
  if (!asked) return std::unexpected(FromApi(asked.error()));
  if (asked->given.Has("deps") || asked->given.Has("allow_runtime_deps")) {
    return Err(ErrorCode::kUnsupported,
               "deps and allow_runtime_deps are not available in the library: make an environment with 'cella env "
               "create' and name it as venv");
  }
  if (asked->given.Has("environment")) {
    return Err(
        ErrorCode::kUnsupported,
        "environment is not available in the library: make one with 'cella env create' and name its directory as "
        "venv");
  }
  if (asked->given.Has("name") || asked->given.Has("labels")) {
    return Err(ErrorCode::kInvalid, "name and labels are for sessions of a server, which finds them again by these");
  }
  auto spec = server::Admit(*asked, Everything(), "");
  if (!spec) return std::unexpected(FromApi(spec.error()));
  if (!spec->storage.empty() && spec->executor == kInThisProcess) {
    return Err(ErrorCode::kUnsupported,
               "storage: code in the application's own process has no storage: choose another executor");
  }
  SessionRequest request;
  request.executor = spec->executor;
  request.options.guest = std::move(*spec);
  request.options.queue = kQueue;
  return request;
}

}  // namespace cella::library
