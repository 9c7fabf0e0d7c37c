#include "installer/builder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "installer/uv_program.h"

namespace cella::installer {
namespace {

using environment::BasePython;
using environment::Ready;
using environment::Request;
using environment::StoreLock;
using Json = nlohmann::ordered_json;

constexpr int64_t kLockAge = 24 * 60 * 60;
constexpr auto kLockPoll = std::chrono::milliseconds(25);
constexpr auto kLockPatience = std::chrono::minutes(20);

// Removes what was built when it is not published. The lock is free afterwards.
class StagingGuard {
 public:
  explicit StagingGuard(const environment::Store::Staging& staging) : path_(staging.path) {}
  StagingGuard(const StagingGuard&) = delete;
  StagingGuard& operator=(const StagingGuard&) = delete;
  ~StagingGuard() { environment::RemoveReadOnlyTree(path_); }

 private:
  std::string path_;
};

std::vector<std::string> TextsOf(const std::vector<environment::Requirement>& packages) {
  std::vector<std::string> texts;
  for (const auto& package : packages) texts.push_back(package.text);
  return texts;
}

}  // namespace

std::string NamesOf(const std::vector<environment::Requirement>& packages) {
  std::string names;
  for (const auto& package : packages) names += (names.empty() ? "" : ", ") + package.name;
  return names.empty() ? "no packages" : names;
}

async::Task<Result<StoreLock>> Builder::Lock(std::string name, run::StopToken stop) {
  const async::TimePoint deadline = async::Clock::now() + kLockPatience;
  while (true) {
    auto lock = store_.Lock(name);
    if (lock || lock.error().code != ErrorCode::kExhausted) co_return lock;
    if (stop.ending()) co_return Err(ErrorCode::kClosed, "the installation was stopped");
    if (async::Clock::now() > deadline) co_return lock;
    co_await async::SleepUntil(async::Clock::now() + kLockPoll);
  }
}

async::Task<Result<std::string>> Builder::Uv(const BasePython& python, Progress progress, run::StopToken stop) {
  if (!settings_.uv.empty()) co_return settings_.uv;
  CO_TRY(const PinnedUv* pinned, UvForThisMachine());
  const std::string place = UvPlace(store_, *pinned);
  if (::access(place.c_str(), X_OK) == 0) co_return place;
  auto held = co_await Lock("uv", stop);
  if (!held) co_return std::unexpected(std::move(held.error()));
  if (::access(place.c_str(), X_OK) == 0) co_return place;
  CO_TRY(const auto staging, store_.MakeStaging());
  const StagingGuard guard(staging);
  if (progress) progress(fmt::format("Fetching uv {}", kUvVersion));
  const Json request = {
      {"op", "fetch_uv"}, {"place", staging.path}, {"platform", pinned->platform}, {"version", kUvVersion}};
  auto fetched = co_await Perform(
      jail_, {python, request, true, settings_.index.ForPip(), staging.path, settings_.index.Paths()}, progress, stop);
  if (!fetched) {
    co_return std::unexpected(std::move(fetched.error())
                                  .WithContext(fmt::format("uv {}, the installer, cannot be fetched from the index "
                                                           "(configure pip's index-url, or name a uv with CELLA_UV)",
                                                           kUvVersion)));
  }
  auto check = [&] { return TakeUv(staging.path + "/uv", *pinned, place); };
  auto taken = co_await pool_.Run(check);
  if (!taken) co_return std::unexpected(std::move(taken.error()));
  co_return place;
}

async::Task<Result<std::string>> Builder::ResolveInStaging(const Request& request, std::string lock,
                                                           const std::vector<std::string>& preferred, Progress progress,
                                                           run::StopToken stop) {
  auto uv = co_await Uv(request.python, progress, stop);
  if (!uv) co_return std::unexpected(std::move(uv.error()));
  CO_TRY(const auto staging, store_.MakeStaging());
  const StagingGuard guard(staging);
  std::vector<std::string> packages = request.pinned.empty() ? TextsOf(request.packages) : request.pinned;
  const Json call = {{"op", "resolve"},
                     {"uv", *uv},
                     {"cache", store_.work() + "/cache"},
                     {"staging", staging.path},
                     {"packages", packages},
                     {"constraints", TextsOf(request.constraints)},
                     {"preferred", preferred},
                     {"lock", lock}};
  std::vector<std::string> shown = settings_.index.Paths();
  shown.push_back(*uv);
  auto answer = co_await Perform(jail_, {request.python, call, true, settings_.index.ForUv(), store_.work(), shown},
                                 progress, stop);
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  co_return answer->value("lock", "");
}

async::Task<Result<std::string>> Builder::Resolve(Request request, std::vector<std::string> preferred,
                                                  Progress progress, run::StopToken stop) {
  CO_TRY_VOID(settings_.rules.Check(request.packages));
  auto lock = co_await ResolveInStaging(request, "", preferred, progress, stop);
  if (!lock) {
    co_return std::unexpected(std::move(lock.error()).WithContext("cannot install " + NamesOf(request.packages)));
  }
  co_return lock;
}

async::Task<Result<Ready>> Builder::Install(const BasePython& python, const std::string& lock,
                                            std::vector<std::string> requested, Progress progress,
                                            run::StopToken stop) {
  auto uv = co_await Uv(python, progress, stop);
  if (!uv) co_return std::unexpected(std::move(uv.error()));
  CO_TRY(const auto staging, store_.MakeStaging());
  const StagingGuard guard(staging);
  const Json call = {{"op", "install"},
                     {"uv", *uv},
                     {"cache", store_.work() + "/cache"},
                     {"bytecode", store_.work() + "/bytecode"},
                     {"staging", staging.path},
                     {"lock", lock}};
  // Without network the wheels of find-links come from their directories, all others from the cache.
  std::vector<std::string> shown = settings_.index.Paths();
  shown.push_back(*uv);
  auto answer =
      co_await Perform(jail_, {python, call, false, settings_.index.ForUv(), store_.work(), shown}, progress, stop);
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  environment::Manifest manifest;
  manifest.key = ContentKey(python, lock);
  manifest.python = python.executable;
  manifest.version = python.version;
  manifest.requested = std::move(requested);
  manifest.lock = lock;
  manifest.bytes = answer->value("bytes", uint64_t{0});
  manifest.files = answer->value("files", uint64_t{0});
  for (const Json& package : (*answer)["packages"]) {
    manifest.packages.push_back({package.value("name", ""), package.value("version", "")});
  }
  auto publish = [&] { return store_.Publish(staging, manifest); };
  auto published = co_await pool_.Run(publish);
  if (!published) co_return std::unexpected(std::move(published.error()));
  auto ready = store_.Find(manifest.key);
  if (!ready) co_return Err(ErrorCode::kInternal, "the environment '{}' is gone after it was published", manifest.key);
  co_return std::move(*ready);
}

async::Task<Result<Ready>> Builder::BuildLock(BasePython python, std::string lock, std::vector<std::string> requested,
                                              Progress progress, run::StopToken stop) {
  const std::string key = ContentKey(python, lock);
  if (auto ready = store_.Find(key)) co_return std::move(*ready);
  auto held = co_await Lock("build-" + key, stop);
  if (!held) co_return std::unexpected(std::move(held.error()));
  if (auto ready = store_.Find(key)) co_return std::move(*ready);
  auto installed = co_await Install(python, lock, requested, progress, stop);
  if (installed || installed.error().code == ErrorCode::kClosed) co_return installed;
  // The cache may have lost a wheel: fetch what the lock names, once.
  Request request{std::move(python), {}, {}, {}, ""};
  auto fetched = co_await ResolveInStaging(request, lock, {}, progress, stop);
  if (!fetched) co_return std::unexpected(std::move(fetched.error()));
  installed = co_await Install(request.python, lock, std::move(requested), progress, stop);
  co_return installed;
}

async::Task<Result<Builder::BuiltLayer>> Builder::BuildLayer(BasePython python, std::string lock,
                                                             const environment::Store::Layer& layer, uint64_t number,
                                                             Progress progress, run::StopToken stop) {
  auto uv = co_await Uv(python, progress, stop);
  if (!uv) co_return std::unexpected(std::move(uv.error()));
  CO_TRY(const auto staging, store_.MakeStaging());
  const StagingGuard guard(staging);
  const Json call = {{"op", "layer"},
                     {"uv", *uv},
                     {"cache", store_.work() + "/cache"},
                     {"bytecode", store_.work() + "/bytecode"},
                     {"staging", staging.path},
                     {"lock", lock}};
  // Without network the wheels of find-links come from their directories, all others from the cache.
  std::vector<std::string> shown = settings_.index.Paths();
  shown.push_back(*uv);
  auto answer =
      co_await Perform(jail_, {python, call, false, settings_.index.ForUv(), store_.work(), shown}, progress, stop);
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  BuiltLayer built;
  built.bytes = answer->value("bytes", uint64_t{0});
  CO_TRY(built.directory, store_.PublishLayer(staging, layer, number));
  co_return built;
}

async::Task<Status> Builder::CheckPreload(const Ready& ready, std::vector<std::string> modules, run::StopToken stop) {
  auto checked = co_await ImportModules(jail_, ready.venv, std::move(modules), stop);
  co_return checked;
}

async::Task<Result<Ready>> Builder::Build(Request request, Progress progress, run::StopToken stop) {
  CO_TRY_VOID(settings_.rules.Check(request.packages));
  auto built = co_await BuildOurs(std::move(request), std::move(progress), stop);
  co_return built;
}

async::Task<Result<Ready>> Builder::BuildOurs(Request request, Progress progress, run::StopToken stop) {
  const std::string key = RequestKey(request);
  const std::string context = "cannot make an environment with " + NamesOf(request.packages);
  auto known = refresh_ ? std::nullopt : store_.FindLock(key, kLockAge);
  if (!known) {
    store_.Sweep();
    auto held = co_await Lock("request-" + key, stop);
    if (!held) co_return std::unexpected(std::move(held.error()).WithContext(context));
    if (!refresh_) known = store_.FindLock(key, kLockAge);
    if (!known) {
      auto lock = co_await ResolveInStaging(request, "", {}, progress, stop);
      if (!lock) co_return std::unexpected(std::move(lock.error()).WithContext(context));
      CO_TRY_VOID(store_.KeepLock(key, *lock));
      known = std::move(*lock);
    }
  }
  auto ready = co_await BuildLock(request.python, *known, TextsOf(request.packages), std::move(progress), stop);
  if (!ready) co_return std::unexpected(std::move(ready.error()).WithContext(context));
  co_return ready;
}

}  // namespace cella::installer
