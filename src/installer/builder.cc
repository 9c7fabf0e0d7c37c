#include "installer/builder.h"

#include <unistd.h>

#include <algorithm>
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
constexpr auto kTrimEvery = std::chrono::minutes(10);
constexpr size_t kMaxDepth = 3;    // of builds that need builds
constexpr size_t kMaxBuilds = 20;  // of one request
constexpr std::string_view kBuiltMark = " # built:";

// The keys of the wheels in a lock that were built here.
std::vector<std::string> BuiltOf(const std::string& lock) {
  std::vector<std::string> keys;
  for (size_t at = lock.find(kBuiltMark); at != std::string::npos; at = lock.find(kBuiltMark, at)) {
    at += kBuiltMark.size();
    keys.push_back(lock.substr(at, lock.find('\n', at) - at));
  }
  return keys;
}

// For the installer's script; their directories are added to what its jail shows.
Json ShowBuilt(const environment::Store& store, const std::vector<std::string>& keys, std::vector<std::string>* shown) {
  Json list = Json::array();
  for (const std::string& key : keys) {
    const auto directory = store.FindBuilt(key);
    if (!directory) continue;
    shown->push_back(*directory);
    list.push_back({{"key", key}, {"directory", *directory}});
  }
  return list;
}

void NamePythonOf(const BasePython& python, Json* call) {
  if (python.for_version.empty()) return;
  (*call)["for_version"] = python.for_version;
  (*call)["for_platform"] = python.for_platform;
}

std::vector<std::string> TextsOf(const std::vector<environment::Requirement>& packages) {
  std::vector<std::string> texts;
  for (const auto& package : packages) texts.push_back(package.text);
  return texts;
}

// The store lies on a disk: it is read, and left directories are removed, on a thread of the pool.
async::Task<Result<std::optional<Ready>>> FindReady(async::BlockingPool& pool, const environment::Store& store,
                                                    std::string key) {
  auto find = [&]() -> Result<std::optional<Ready>> { return store.Find(key); };
  auto found = co_await pool.Run(find);
  co_return found;
}

async::Task<Result<std::optional<std::string>>> FindLock(async::BlockingPool& pool, const environment::Store& store,
                                                         std::string key) {
  auto find = [&]() -> Result<std::optional<std::string>> { return store.FindLock(key, kLockAge); };
  auto found = co_await pool.Run(find);
  co_return found;
}

// A build may leave tens of thousands of files.
async::Task<void> Discard(async::BlockingPool& pool, const environment::Store::Staging& staging) {
  auto remove = [&]() -> Status {
    environment::RemoveReadOnlyTree(staging.path);
    return {};
  };
  (void)co_await pool.Run(remove);
}

}  // namespace

std::string NamesOf(const std::vector<environment::Requirement>& packages) {
  std::string names;
  for (const auto& package : packages) names += (names.empty() ? "" : ", ") + package.name;
  return names.empty() ? "no packages" : names;
}

async::Task<Result<StoreLock>> Builder::Lock(std::string name, run::StopToken stop, Sharing sharing) {
  const async::TimePoint deadline = async::Clock::now() + kLockPatience;
  while (true) {
    auto lock = sharing == Sharing::kShared ? store_.LockShared(name) : store_.Lock(name);
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
  const environment::StagingGuard guard(staging);
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

async::Task<Result<Builder::Resolved>> Builder::ResolveInStaging(const Request& request, std::string lock,
                                                                 const std::vector<std::string>& preferred,
                                                                 const std::vector<std::string>& built,
                                                                 Progress progress, run::StopToken stop) {
  auto uv = co_await Uv(request.python, progress, stop);
  if (!uv) co_return std::unexpected(std::move(uv.error()));
  auto cache = co_await Lock("cache", stop, Sharing::kShared);
  if (!cache) co_return std::unexpected(std::move(cache.error()));
  CO_TRY(const auto staging, store_.MakeStaging());
  const environment::StagingGuard guard(staging);
  std::vector<std::string> packages = request.pinned.empty() ? TextsOf(request.packages) : request.pinned;
  std::vector<std::string> shown = settings_.index.Paths();
  shown.push_back(*uv);
  Json call = {{"op", "resolve"},
               {"uv", *uv},
               {"cache", store_.work() + "/cache"},
               {"staging", staging.path},
               {"packages", packages},
               {"constraints", TextsOf(request.constraints)},
               {"preferred", preferred},
               {"built", ShowBuilt(store_, built, &shown)},
               {"lock", lock}};
  NamePythonOf(request.python, &call);
  auto answer = co_await Perform(jail_, {request.python, call, true, settings_.index.ForUv(), store_.work(), shown},
                                 progress, stop);
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  Resolved resolved;
  resolved.lock = answer->value("lock", "");
  resolved.why = answer->value("why", "");
  for (const Json& source : (*answer)["sources"]) {
    resolved.sources.push_back({source.value("name", ""), source["specifiers"].get<std::vector<std::string>>()});
  }
  co_return resolved;
}

async::Task<Result<std::string>> Builder::ResolveWithSources(const Request& request,
                                                             const std::vector<std::string>& preferred,
                                                             Progress progress, run::StopToken stop, Chain chain) {
  std::vector<std::string> built;
  for (;;) {
    auto resolved = co_await ResolveInStaging(request, "", preferred, built, progress, stop);
    if (!resolved) co_return std::unexpected(std::move(resolved.error()));
    if (resolved->sources.empty()) co_return std::move(resolved->lock);
    if (!request.python.for_version.empty()) {
      // A build would run with this machine's interpreter, and fit that one.
      co_return Err(ErrorCode::kInvalid, "{} (packages for another interpreter are not built from their source)",
                    resolved->why);
    }
    if (!settings_.source_builds) {
      co_return Err(ErrorCode::kInvalid, "{} (packages are not built from their source here: the operator decides)",
                    resolved->why);
    }
    if (chain.size() >= kMaxDepth)
      co_return Err(ErrorCode::kInvalid, "builds need builds too deeply: {}", resolved->why);
    for (const Source& source : resolved->sources) {
      if (built.size() >= kMaxBuilds) {
        co_return Err(ErrorCode::kExhausted, "more than {} packages would have to be built from their source",
                      kMaxBuilds);
      }
      auto key = co_await BuildSource(request.python, source, progress, stop, chain);
      if (!key) co_return std::unexpected(std::move(key.error()));
      if (std::ranges::find(built, *key) != built.end()) {
        co_return Err(ErrorCode::kInvalid, "the source of {} does not help: {}", source.name, resolved->why);
      }
      built.push_back(std::move(*key));
    }
  }
}

async::Task<Result<std::string>> Builder::Resolve(Request request, std::vector<std::string> preferred,
                                                  Progress progress, run::StopToken stop) {
  CO_TRY_VOID(settings_.rules.Check(request.packages));
  auto lock = co_await ResolveWithSources(request, preferred, progress, stop, {});
  if (!lock) {
    co_return std::unexpected(std::move(lock.error()).WithContext("cannot install " + NamesOf(request.packages)));
  }
  co_return lock;
}

async::Task<Result<Json>> Builder::InstallInStaging(const char* operation, const BasePython& python,
                                                    const std::string& lock, const environment::Store::Staging& staging,
                                                    Progress progress, run::StopToken stop) {
  auto uv = co_await Uv(python, progress, stop);
  if (!uv) co_return std::unexpected(std::move(uv.error()));
  // Without network the wheels of find-links come from their directories, all others from the cache.
  std::vector<std::string> shown = settings_.index.Paths();
  shown.push_back(*uv);
  Json call = {{"op", operation},
               {"uv", *uv},
               {"cache", store_.work() + "/cache"},
               {"bytecode", store_.work() + "/bytecode"},
               {"staging", staging.path},
               {"built", ShowBuilt(store_, BuiltOf(lock), &shown)},
               {"lock", lock}};
  NamePythonOf(python, &call);
  for (bool again = false;; again = true) {
    {
      auto cache = co_await Lock("cache", stop, Sharing::kShared);
      if (!cache) co_return std::unexpected(std::move(cache.error()));
      auto answer =
          co_await Perform(jail_, {python, call, false, settings_.index.ForUv(), store_.work(), shown}, progress, stop);
      if (answer || again || answer.error().code == ErrorCode::kClosed) co_return answer;
    }
    // The cache may have lost a wheel: fetch what the lock names, once.
    Request request{python, {}, {}, {}, ""};
    auto fetched = co_await ResolveInStaging(request, lock, {}, BuiltOf(lock), progress, stop);
    if (!fetched) co_return std::unexpected(std::move(fetched.error()));
    auto empty = [&]() -> Status {
      environment::EmptyReadOnlyTree(staging.path);
      return {};
    };
    CO_TRY_VOID(co_await pool_.Run(empty));
  }
}

async::Task<Result<Ready>> Builder::Install(const BasePython& python, const std::string& lock,
                                            std::vector<std::string> requested, Progress progress,
                                            run::StopToken stop) {
  CO_TRY(const auto staging, store_.MakeStaging());
  const environment::StagingGuard guard(staging);
  auto answer = co_await InstallInStaging("install", python, lock, staging, progress, stop);
  if (!answer) {
    co_await Discard(pool_, staging);
    co_return std::unexpected(std::move(answer.error()));
  }
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
  co_await Discard(pool_, staging);
  if (!published) co_return std::unexpected(std::move(published.error()));
  CO_TRY(std::optional<Ready> ready, co_await FindReady(pool_, store_, manifest.key));
  if (!ready) co_return Err(ErrorCode::kInternal, "the environment '{}' is gone after it was published", manifest.key);
  co_return std::move(*ready);
}

async::Task<Result<Ready>> Builder::BuildLock(BasePython python, std::string lock, std::vector<std::string> requested,
                                              Progress progress, run::StopToken stop) {
  const std::string key = ContentKey(python, lock);
  CO_TRY(std::optional<Ready> ready, co_await FindReady(pool_, store_, key));
  if (ready) co_return std::move(*ready);
  auto held = co_await Lock("build-" + key, stop);
  if (!held) co_return std::unexpected(std::move(held.error()));
  CO_TRY(ready, co_await FindReady(pool_, store_, key));
  if (ready) co_return std::move(*ready);
  auto installed = co_await Install(python, lock, std::move(requested), progress, stop);
  co_return installed;
}

async::Task<Result<Builder::BuiltLayer>> Builder::BuildLayer(BasePython python, std::string lock,
                                                             const environment::Store::Layer& layer, uint64_t number,
                                                             Progress progress, run::StopToken stop) {
  CO_TRY(const auto staging, store_.MakeStaging());
  const environment::StagingGuard guard(staging);
  auto answer = co_await InstallInStaging("layer", python, lock, staging, progress, stop);
  if (!answer) {
    co_await Discard(pool_, staging);
    co_return std::unexpected(std::move(answer.error()));
  }
  BuiltLayer built;
  built.bytes = answer->value("bytes", uint64_t{0});
  auto publish = [&] { return store_.PublishLayer(staging, layer, number); };
  auto published = co_await pool_.Run(publish);
  co_await Discard(pool_, staging);
  if (!published) co_return std::unexpected(std::move(published.error()));
  built.directory = std::move(*published);
  co_return built;
}

async::Task<void> Builder::RemoveGeneration(std::string directory) {
  auto remove = [&]() -> Status {
    environment::RemoveReadOnlyTree(store_.layers() + "/" + directory);
    return {};
  };
  (void)co_await pool_.Run(remove);
}

async::Task<void> Builder::RemoveLayer(environment::Store::Layer layer) {
  auto remove = [&]() -> Status {
    store_.RemoveLayer(layer);
    return {};
  };
  (void)co_await pool_.Run(remove);
}

// At most once in a while, because it reads every entry. Not while an installer works.
async::Task<void> Builder::TrimCache() {
  if (trimmed_ != async::TimePoint{} && async::Clock::now() < trimmed_ + kTrimEvery) co_return;
  trimmed_ = async::Clock::now();
  auto trim = [&]() -> Status {
    store_.TrimCache(settings_.bounds.cache);
    (void)store_.Collect(environment::kUnusedSeconds);
    return {};
  };
  (void)co_await pool_.Run(trim);
}

async::Task<Status> Builder::CheckPreload(const Ready& ready, std::vector<std::string> modules, run::StopToken stop) {
  auto checked = co_await ImportModules(jail_, ready.venv, std::move(modules), stop);
  co_return checked;
}

async::Task<Result<Ready>> Builder::Build(Request request, Progress progress, run::StopToken stop) {
  CO_TRY_VOID(settings_.rules.Check(request.packages));
  auto ready = co_await BuildAt(std::move(request), std::move(progress), stop, {});
  co_return ready;
}

async::Task<Result<Ready>> Builder::BuildOurs(Request request, Progress progress, run::StopToken stop) {
  auto ready = co_await BuildAt(std::move(request), std::move(progress), stop, {}, Whose::kOurs);
  co_return ready;
}

async::Task<Result<Ready>> Builder::BuildAt(Request request, Progress progress, run::StopToken stop, Chain chain,
                                            Whose whose) {
  const std::string key = RequestKey(request);
  const std::string context = "cannot make an environment with " + NamesOf(request.packages);
  const bool refresh = refresh_ && chain.empty();
  std::optional<std::string> known;
  if (!refresh) {
    CO_TRY(known, co_await FindLock(pool_, store_, key));
  }
  if (!known) {
    co_await TrimCache();
    auto sweep = [&]() -> Status {
      store_.Sweep();
      return {};
    };
    CO_TRY_VOID(co_await pool_.Run(sweep));
    auto held = co_await Lock("request-" + key, stop);
    if (!held) co_return std::unexpected(std::move(held.error()).WithContext(context));
    if (!refresh) {
      CO_TRY(known, co_await FindLock(pool_, store_, key));
    }
    if (!known) {
      auto lock = co_await ResolveWithSources(request, {}, progress, stop, std::move(chain));
      if (!lock) co_return std::unexpected(std::move(lock.error()).WithContext(context));
      auto keep = [&] { return store_.KeepLock(key, *lock); };
      CO_TRY_VOID(co_await pool_.Run(keep));
      known = std::move(*lock);
    }
  }
  if (whose == Whose::kClients) {
    if (auto permitted = settings_.rules.CheckLock(*known); !permitted) {
      co_return std::unexpected(std::move(permitted.error()).WithContext(context));
    }
  }
  auto ready = co_await BuildLock(request.python, *known, TextsOf(request.packages), std::move(progress), stop);
  if (!ready) co_return std::unexpected(std::move(ready.error()).WithContext(context));
  co_return ready;
}

}  // namespace cella::installer
