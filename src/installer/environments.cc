#include "installer/environments.h"

#include <algorithm>
#include <set>

#include "async/caught.h"
#include "base/units.h"

namespace cella::installer {
namespace {

using environment::NamedEnvironment;
using environment::Ready;
using environment::Store;
using environment::StoredEnvironment;
using State = EnvironmentStatus::State;

constexpr size_t kKeptFailures = 16;  // of one owner
constexpr size_t kMaxProgress = 200;
constexpr int64_t kLockAge = 24 * 60 * 60;

Status CheckName(const std::string& name) {
  if (environment::IsEnvironmentName(name)) return {};
  return Err(ErrorCode::kInvalid, "'{}' is not a name for an environment: letters, digits, - _ . (at most 64)", name);
}

Error NotThere(const std::string& name) {
  return Error{ErrorCode::kNotFound, fmt::format("there is no environment '{}'", name), 0};
}

const StoredEnvironment* Of(const std::vector<StoredEnvironment>& all, const std::string& key) {
  for (const StoredEnvironment& stored : all) {
    if (stored.manifest.key == key) return &stored;
  }
  return nullptr;
}

EnvironmentStatus StatusOf(const NamedEnvironment& named, const StoredEnvironment* stored) {
  EnvironmentStatus status{.named = named};
  if (stored != nullptr) {
    status.state = State::kReady;
    status.stored = *stored;
  } else {
    status.state = State::kFailed;
    status.error = {ErrorCode::kNotFound, "its files were removed: make it again", 0};
  }
  return status;
}

// Whether the owner may have one more environment of so many bytes. To make room, environments go that no session uses
// and that the owner never named, the one that was not used for the longest time first. Blocks on the file system.
Status MakeRoom(const Store& store, const EnvironmentRequest& request, size_t building, const std::string& key,
                uint64_t bytes) {
  if (request.owner.empty()) return {};
  std::vector<NamedEnvironment> names = store.Names();
  std::erase_if(names, [&](const NamedEnvironment& named) {
    return named.owner != request.owner || named.name == request.choice.name;
  });
  const std::vector<StoredEnvironment> all = store.List();
  for (;;) {
    std::set<std::string> keys{key};
    uint64_t sum = bytes;
    for (const NamedEnvironment& named : names) {
      const StoredEnvironment* stored = Of(all, named.key);
      if (stored != nullptr && keys.insert(named.key).second) sum += stored->manifest.bytes;
    }
    const bool too_many = request.bounds.environments && names.size() + building + 1 > *request.bounds.environments;
    const bool too_large = request.bounds.bytes && sum > *request.bounds.bytes;
    if (!too_many && !too_large) return {};
    auto oldest = names.end();
    int64_t oldest_use = 0;
    for (auto named = names.begin(); named != names.end(); ++named) {
      const StoredEnvironment* stored = Of(all, named->key);
      if (!named->automatic || named->key == key || (stored != nullptr && stored->in_use)) continue;
      const int64_t use = stored == nullptr ? 0 : stored->last_use;
      if (oldest == names.end() || use < oldest_use) {
        oldest = named;
        oldest_use = use;
      }
    }
    if (oldest == names.end()) {
      if (too_many) {
        return Err(ErrorCode::kExhausted, "{} environments, and no more, are yours: remove one",
                   *request.bounds.environments);
      }
      return Err(ErrorCode::kExhausted,
                 "your environments may take {}, and with this one they would take {}: remove one",
                 FormatByteSize(*request.bounds.bytes), FormatByteSize(sum));
    }
    (void)store.RemoveName(oldest->name, oldest->owner);
    store.RemoveUnnamed(oldest->key);
    names.erase(oldest);
  }
}

std::string AutomaticName(const std::string& key) { return "auto-" + key.substr(0, 16); }

// So that a packages' environment counts for the owner. Blocks on the file system.
Status NameAutomatically(const Store& store, const EnvironmentRequest& request, size_t building, const Ready& ready) {
  if (request.owner.empty()) return {};
  const std::vector<NamedEnvironment> names = store.Names();
  const bool known = std::ranges::any_of(names, [&](const NamedEnvironment& named) {
    return named.owner == request.owner && named.key == ready.manifest.key;
  });
  if (known) return {};
  TRY_VOID(MakeRoom(store, request, building, ready.manifest.key, ready.manifest.bytes));
  return store.SaveName({AutomaticName(ready.manifest.key), request.choice.python, request.choice.packages,
                         request.choice.preload, ready.manifest.lock, ready.manifest.key, request.owner, true});
}

}  // namespace

// One that is made under a name, or could not be made.
struct Environments::Build {
  Build(async::Loop& loop, EnvironmentStatus first) : status(std::move(first)), stop(loop), done(loop) {}
  EnvironmentStatus status;
  run::StopSource stop;
  async::Event done;
};

// One that several sessions wait for.
struct Environments::SharedBuild {
  explicit SharedBuild(async::Loop& loop) : done(loop) {}
  Result<Ready> ready = Err(ErrorCode::kClosed, "the server is about to end");
  async::Event done;
};

Environments::Environments(PackageService& packages)
    : packages_(packages), tasks_(packages.loop()), stop_(packages.loop()) {}

std::shared_ptr<Environments::Build> Environments::BuildOf(const std::string& owner, const std::string& name) const {
  auto found = builds_.find({owner, name});
  return found == builds_.end() ? nullptr : found->second;
}

size_t Environments::BuildingOf(const std::string& owner) const {
  return static_cast<size_t>(std::ranges::count_if(builds_, [&](const auto& each) {
    return each.first.first == owner && each.second->status.state == State::kBuilding;
  }));
}

void Environments::ForgetOldFailures(const std::string& owner) {
  size_t failed = 0;
  for (auto each = builds_.begin(); each != builds_.end();) {
    const bool counts = each->first.first == owner && each->second->status.state == State::kFailed;
    if (counts && ++failed > kKeptFailures) {
      each = builds_.erase(each);
    } else {
      ++each;
    }
  }
}

async::Task<Result<environment::Request>> Environments::RequestFor(const EnvironmentRequest& asked) {
  const EnvironmentChoice& choice = asked.choice;
  environment::Request request;
  CO_TRY(request.packages, environment::ParseRequirements(choice.packages));
  // Also of packages that are there already: another client may have been permitted what this one is not.
  CO_TRY_VOID(packages_.rules().Check(request.packages));
  auto find = [&]() -> Result<environment::BasePython> {
    TRY(const environment::IndexSettings index, OperatorIndex());
    request.index = index.Identity();
    return packages_.BaseFor(choice.python, asked.requires_python);
  };
  auto base = co_await packages_.pool().Run(find);
  if (!base) co_return std::unexpected(std::move(base.error()));
  request.python = std::move(*base);
  co_return request;
}

async::Task<Status> Environments::Begin(EnvironmentRequest request) {
  if (const Error* why = packages_.why()) co_return std::unexpected(*why);
  if (stop_.token().ending()) co_return Err(ErrorCode::kClosed, "the server is about to end");
  const std::string owner = request.owner, name = request.choice.name;
  CO_TRY_VOID(CheckName(name));
  if (auto parsed = environment::ParseRequirements(request.choice.packages); !parsed) {
    co_return std::unexpected(std::move(parsed.error()));
  }
  if (auto on = BuildOf(owner, name); on && on->status.state == State::kBuilding) {
    co_return Err(ErrorCode::kInvalid, "the environment '{}' is being made", name);
  }
  CO_TRY(std::shared_ptr<void> permit, TakePermit(request.permit));
  EnvironmentStatus status{
      .named = {name, request.choice.python, request.choice.packages, request.choice.preload, "", "", owner, false}};
  const size_t building = BuildingOf(owner);
  auto build = std::make_shared<Build>(packages_.loop(), std::move(status));
  // From here on the name is taken for other requests.
  builds_[{owner, name}] = build;
  auto check = [&]() -> Status {
    auto there = packages_.store().FindName(name, owner);
    if (there && there->owner == owner && !request.replace) {
      return Err(ErrorCode::kInvalid, "there is an environment '{}' already: ask to replace it, or choose another name",
                 name);
    }
    return MakeRoom(packages_.store(), request, building, "", 0);
  };
  auto checked = co_await packages_.pool().Run(check);
  if (!checked || stop_.token().ending()) {
    builds_.erase({owner, name});
    build->status.state = State::kFailed;
    build->done.Set();
    if (!checked) co_return checked;
    co_return Err(ErrorCode::kClosed, "the server is about to end");
  }
  tasks_.Add(Make(build, std::move(request), std::move(permit)));
  co_return Status{};
}

async::Task<void> Environments::Make(std::shared_ptr<Build> build, EnvironmentRequest request,
                                     std::shared_ptr<void> permit) {
  auto made = co_await async::Caught(MakeNamed(*build, request));
  permit.reset();
  const Key key{request.owner, request.choice.name};
  if (made) {
    build->status.state = State::kReady;
  } else {
    build->status.state = State::kFailed;
    build->status.error = made.error();
  }
  // What was removed meanwhile is not remembered.
  auto still = builds_.find(key);
  if (still != builds_.end() && still->second == build && (made || build->stop.token().ending())) builds_.erase(still);
  ForgetOldFailures(request.owner);
  build->done.Set();
}

async::Task<Result<Ready>> Environments::BuildPackages(const EnvironmentRequest& request, environment::Request wanted,
                                                       Progress progress, run::StopToken stop) {
  auto builder = co_await packages_.StartBuilder();
  if (!builder) co_return std::unexpected(std::move(builder.error()));
  auto ready = co_await (*builder)->Build(std::move(wanted), std::move(progress), stop);
  if (!ready) co_return ready;
  if (!request.choice.preload.empty()) {
    auto imported = co_await (*builder)->CheckPreload(*ready, request.choice.preload, stop);
    if (!imported) {
      co_await Forget(std::move(*ready));
      co_return std::unexpected(std::move(imported.error()));
    }
  }
  co_return ready;
}

async::Task<void> Environments::Forget(Ready ready) {
  const std::string key = ready.manifest.key;
  {
    const Ready released = std::move(ready);
  }
  auto remove = [&]() -> Status {
    packages_.store().RemoveUnnamed(key);
    return {};
  };
  (void)co_await packages_.pool().Run(remove);
}

async::Task<Status> Environments::MakeNamed(Build& build, const EnvironmentRequest& request) {
  auto wanted = co_await RequestFor(request);
  if (!wanted) co_return std::unexpected(std::move(wanted.error()));
  auto show = [&build](std::string_view line) { build.status.progress = line.substr(0, kMaxProgress); };
  auto ready = co_await BuildPackages(request, std::move(*wanted), show, build.stop.token());
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  if (build.stop.token().ending()) co_return Err(ErrorCode::kClosed, "it was removed while it was being made");
  const size_t building = BuildingOf(request.owner) - 1;  // without this one
  auto save = [&]() -> Status {
    const Store& store = packages_.store();
    TRY_VOID(MakeRoom(store, request, building, ready->manifest.key, ready->manifest.bytes));
    auto old = store.FindName(request.choice.name, request.owner);
    TRY_VOID(store.SaveName({request.choice.name, request.choice.python, request.choice.packages,
                             request.choice.preload, ready->manifest.lock, ready->manifest.key, request.owner, false}));
    if (old && old->owner == request.owner && old->key != ready->manifest.key) store.RemoveUnnamed(old->key);
    return {};
  };
  auto saved = co_await packages_.pool().Run(save);
  if (!saved) co_await Forget(std::move(*ready));
  co_return saved;
}

async::Task<Result<EnvironmentStatus>> Environments::Wait(std::string owner, std::string name) {
  if (auto build = BuildOf(owner, name)) {
    (void)co_await build->done.Wait();
    if (build->status.state == State::kFailed) co_return build->status;
  }
  auto found = co_await Find(std::move(owner), std::move(name));
  co_return found;
}

async::Task<Result<EnvironmentStatus>> Environments::Find(std::string owner, std::string name) {
  if (const Error* why = packages_.why()) co_return std::unexpected(*why);
  if (auto build = BuildOf(owner, name)) co_return build->status;
  auto find = [&]() -> Result<EnvironmentStatus> {
    auto named = packages_.store().FindName(name, owner);
    if (!named) return std::unexpected(NotThere(name));
    const std::vector<StoredEnvironment> all = packages_.store().List();
    return StatusOf(*named, Of(all, named->key));
  };
  auto found = co_await packages_.pool().Run(find);
  co_return found;
}

async::Task<Result<std::vector<EnvironmentStatus>>> Environments::List(std::string owner) {
  if (const Error* why = packages_.why()) co_return std::unexpected(*why);
  auto list = [&]() -> Result<std::vector<EnvironmentStatus>> {
    std::vector<EnvironmentStatus> found;
    const std::vector<StoredEnvironment> all = packages_.store().List();
    for (const NamedEnvironment& named : packages_.store().Names()) {
      if (named.owner.empty() || named.owner == owner) found.push_back(StatusOf(named, Of(all, named.key)));
    }
    return found;
  };
  auto found = co_await packages_.pool().Run(list);
  if (!found) co_return found;
  // What is being made anew hides what has its name.
  for (const auto& [key, build] : builds_) {
    if (key.first != owner) continue;
    std::erase_if(*found, [&](const EnvironmentStatus& each) {
      return each.named.name == key.second && each.named.owner == owner;
    });
    found->push_back(build->status);
  }
  std::ranges::sort(*found, {}, [](const EnvironmentStatus& each) { return each.named.name; });
  co_return found;
}

async::Task<Status> Environments::Remove(std::string owner, std::string name) {
  if (const Error* why = packages_.why()) co_return std::unexpected(*why);
  bool removed = false;
  if (auto build = BuildOf(owner, name)) {
    (void)build->stop.Request(StopReason::kCancel);
    if (build->status.state == State::kBuilding) (void)co_await build->done.Wait();
    if (BuildOf(owner, name) == build) builds_.erase({owner, name});
    removed = true;
  }
  auto remove = [&]() -> Status {
    auto named = packages_.store().FindName(name, owner);
    if (!named) return removed ? Status{} : std::unexpected(NotThere(name));
    if (named->owner != owner) {
      if (removed) return {};
      return Err(ErrorCode::kPermission, "the environment '{}' is the operator's, for all clients", name);
    }
    TRY_VOID(packages_.store().RemoveName(name, owner));
    packages_.store().RemoveUnnamed(named->key);
    return {};
  };
  auto done = co_await packages_.pool().Run(remove);
  co_return done;
}

async::Task<Result<Environments::Used>> Environments::UseNamed(const EnvironmentRequest& request) {
  const std::string& name = request.choice.name;
  if (auto build = BuildOf(request.owner, name)) {
    (void)co_await build->done.Wait();
    if (build->status.state == State::kFailed) {
      co_return Err(ErrorCode::kInvalid, "the environment '{}' could not be made: {}", name,
                    build->status.error.message);
    }
  }
  NamedEnvironment named;
  environment::BasePython python;
  auto find = [&]() -> Result<std::optional<Ready>> {
    TRY(named, packages_.store().FindName(name, request.owner));
    TRY(python, packages_.BaseFor(named.python));
    return packages_.store().Find(ContentKey(python, named.lock));
  };
  auto found = co_await packages_.pool().Run(find);
  if (!found) co_return std::unexpected(std::move(found.error()));
  if (*found) co_return Used{std::move(**found), named.preload};
  // Its files are gone, or its interpreter was upgraded.
  auto builder = co_await packages_.StartBuilder();
  if (!builder) co_return std::unexpected(std::move(builder.error()));
  auto ready = co_await (*builder)->BuildLock(python, named.lock, named.packages, nullptr, stop_.token());
  if (!ready) co_return std::unexpected(std::move(ready.error()).WithContext(fmt::format("environment '{}'", name)));
  named.key = ready->manifest.key;
  auto save = [&]() -> Status { return packages_.store().SaveName(named); };
  (void)co_await packages_.pool().Run(save);
  co_return Used{std::move(*ready), named.preload};
}

async::Task<Result<std::shared_ptr<Environments::SharedBuild>>> Environments::BuildOnce(
    const EnvironmentRequest& request, environment::Request wanted) {
  std::string key = RequestKey(wanted);
  for (const std::string& module : request.choice.preload) key += "\n" + module;
  auto found = shared_builds_.find(key);
  std::shared_ptr<SharedBuild> build;
  if (found != shared_builds_.end()) {
    build = found->second;
  } else {
    if (stop_.token().ending()) co_return Err(ErrorCode::kClosed, "the server is about to end");
    CO_TRY(std::shared_ptr<void> permit, TakePermit(request.permit));
    build = std::make_shared<SharedBuild>(packages_.loop());
    shared_builds_[key] = build;
    tasks_.Add(MakeShared(build, key, request, std::move(wanted), std::move(permit)));
  }
  if (const bool done = co_await build->done.Wait(); !done) {
    co_return Err(ErrorCode::kClosed, "the request ended before the environment was made");
  }
  if (!build->ready) co_return std::unexpected(build->ready.error());
  co_return build;
}

async::Task<void> Environments::MakeShared(std::shared_ptr<SharedBuild> build, std::string key,
                                           EnvironmentRequest request, environment::Request wanted,
                                           std::shared_ptr<void> permit) {
  build->ready = co_await async::Caught(BuildPackages(request, std::move(wanted), nullptr, stop_.token()));
  permit.reset();
  shared_builds_.erase(key);
  build->done.Set();
}

async::Task<Result<Environments::Used>> Environments::UsePackages(const EnvironmentRequest& request) {
  auto wanted = co_await RequestFor(request);
  if (!wanted) co_return std::unexpected(std::move(wanted.error()));
  const size_t building = BuildingOf(request.owner);
  const Store& store = packages_.store();
  auto find = [&]() -> Result<std::optional<Ready>> {
    auto lock = store.FindLock(RequestKey(*wanted), kLockAge);
    if (!lock) return std::nullopt;
    return store.Find(ContentKey(wanted->python, *lock));
  };
  auto found = co_await packages_.pool().Run(find);
  if (!found) co_return std::unexpected(std::move(found.error()));
  std::optional<Ready> ready = std::move(*found);
  if (!ready) {
    // It holds the environment until this request has a lease of its own.
    CO_TRY(const std::shared_ptr<SharedBuild> built, co_await BuildOnce(request, *wanted));
    auto lease = [&]() -> Result<std::optional<Ready>> { return store.Find(built->ready->manifest.key); };
    auto leased = co_await packages_.pool().Run(lease);
    if (!leased) co_return std::unexpected(std::move(leased.error()));
    if (!*leased) co_return Err(ErrorCode::kInternal, "the environment is gone after it was made");
    ready = std::move(*leased);
  }
  auto count = [&]() -> Status { return NameAutomatically(store, request, building, *ready); };
  auto counted = co_await packages_.pool().Run(count);
  if (!counted) {
    co_await Forget(std::move(*ready));
    co_return std::unexpected(std::move(counted.error()));
  }
  co_return Used{std::move(*ready), request.choice.preload};
}

async::Task<Result<Environments::Used>> Environments::Use(EnvironmentRequest request) {
  if (const Error* why = packages_.why()) co_return std::unexpected(*why);
  if (!request.choice.name.empty()) {
    auto used = co_await UseNamed(request);
    co_return used;
  }
  auto used = co_await UsePackages(request);
  co_return used;
}

async::Task<void> Environments::Close() {
  (void)stop_.Request(StopReason::kClosing);
  for (const auto& [key, build] : builds_) (void)build->stop.Request(StopReason::kClosing);
  (void)co_await async::Caught(tasks_.Join());
}

}  // namespace cella::installer
