#include "installer/session_packages.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "async/caught.h"
#include "calls/arguments.h"
#include "installer/base_python.h"
#include "installer/foreign_python.h"
#include "installer/installed_packages.h"
#include "language/python.h"

namespace cella::installer {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kClosingPoll = std::chrono::milliseconds(20);
constexpr const char* kFailed = "DepsError";
constexpr size_t kMaxArguments = size_t{64} << 10;  // they are read on the loop; the longest requirements need less

run::HostReply Failed(std::string message, const char* type = kFailed) {
  return {.id = 0, .value = {}, .error = run::HostError{type, std::move(message)}};
}

Json ToJson(const std::vector<environment::Package>& packages) {
  Json list = Json::array();
  for (const auto& package : packages) list.push_back({{"name", package.name}, {"version", package.version}});
  return list;
}

Json ToJson(const DepsChange& change) {
  return {{"added", ToJson(change.added)}, {"removed", change.removed}, {"needs_restart", change.needs_restart}};
}

// All arguments of an operation are text, and none has a name.
Result<std::vector<std::string>> Words(const std::string& operation, const std::string& json) {
  if (json.size() > kMaxArguments) {
    return Err(ErrorCode::kExhausted, "deps.{}: the arguments take {} bytes, and {} are the most", operation,
               json.size(), kMaxArguments);
  }
  TRY(calls::Arguments arguments, calls::ParseArguments(json));
  if (!arguments.named.empty()) return Err(ErrorCode::kInvalid, "deps.{}: takes no named arguments", operation);
  std::vector<std::string> words;
  for (const calls::Value& value : arguments.positional) {
    if (!value.is_string()) {
      return Err(ErrorCode::kInvalid, "deps.{}: must be given text, as \"numpy>=2\", not {}", operation,
                 value.type_name());
    }
    words.push_back(value.get<std::string>());
  }
  return words;
}

}  // namespace

PackageService::PackageService(async::Loop& loop, Settings settings)
    : loop_(loop), settings_(std::move(settings)), starting_(loop, 1), pool_(loop, {.threads = 1}) {
  guests_.Add(settings_.guest_writable);
  std::error_code ignored;
  auto open = [&]() -> Result<environment::Store> {
    std::string state_dir = settings_.state_dir;
    // A private server's own state is temporary.
    if (settings_.of_the_user) {
      TRY(state_dir, CommandStateDirectory());
      const auto home = std::filesystem::path(state_dir).parent_path().parent_path().parent_path();
      if (std::getenv("CELLA_STATE_DIR") == nullptr && !std::filesystem::is_directory(home, ignored)) {
        return Err(ErrorCode::kNotFound, "there is no place for packages ('{}' does not exist): set CELLA_STATE_DIR",
                   home.native());
      }
    }
    return environment::Store::Open(state_dir);
  };
  auto store = open();
  if (store) {
    store_ = std::move(*store);
  } else {
    why_ = std::move(store.error());
  }
}

async::Task<Result<Builder*>> PackageService::StartBuilder() {
  if (!store_) co_return std::unexpected(why_);
  auto pass = co_await starting_.Enter();
  if (!home_) {
    CO_TRY(environment::IndexSettings index, OperatorIndex());
    auto sweep = [this]() -> Status {
      store_->Sweep();
      (void)store_->Collect(environment::kUnusedSeconds);
      return {};
    };
    CO_TRY_VOID(co_await pool_.Run(sweep));
    const bool builds = settings_.source_builds && (!settings_.of_the_user || UserPermitsSourceBuilds());
    CO_TRY(home_, BuilderHome::Open(loop_, *store_, std::move(index), {settings_.rules, settings_.bounds, builds}));
  }
  co_return &home_->builder();
}

Result<environment::BasePython> PackageService::BaseFor(const std::string& python, const std::string& required) const {
  TRY(language::HostEnv host, AskingHost(settings_.state_dir));
  // Who works with the whole machine may have given guests any directory.
  return ChooseBasePython(host, python, required, settings_.of_the_user ? nullptr : &guests_);
}

Result<LayerBase> PackageService::BaseOf(const Policy& policy, const run::GuestPython& guest) const {
  if (!policy.rootfs.empty()) {
    return Err(ErrorCode::kUnsupported, "a session with another root tree takes no packages: put them into the tree");
  }
  TRY(language::HostEnv host, AskingHost(settings_.state_dir));
  // Who works with the whole machine may have given guests any directory.
  const language::GuestDirectories* guests = settings_.of_the_user ? nullptr : &guests_;
  if (!guest.described.empty()) {
    // The installer itself runs with an interpreter of this machine.
    TRY(ForeignPython foreign, ParseForeignPython(guest.described));
    LayerBase base;
    TRY(base.python, ChooseBasePython(host, "", "", guests));
    base.python.for_version = std::move(foreign.version);
    base.python.for_platform = std::move(foreign.platform);
    base.packages = std::move(foreign.packages);
    return base;
  }
  LayerBase base;
  if (!guest.sites.empty()) {
    TRY(base.python, BaseFor(guest.executable));
    base.packages = PackagesIn(guest.sites);
    return base;
  }
  const bool named = !guest.executable.empty();
  TRY(language::Python python,
      language::ResolvePython(
          {.python = named ? guest.executable : policy.python, .venv = named ? "" : policy.venv, .host = host}));
  TRY(base.python, BaseFor(python.executable));
  base.packages = InstalledPackages(python.prefix, python.version);
  return base;
}

async::Task<Result<std::unique_ptr<SessionLayer>>> PackageService::Open(Policy policy,
                                                                        std::vector<std::string> configured,
                                                                        run::GuestPython python,
                                                                        SessionLayer::Use use) {
  auto builder = co_await StartBuilder();
  if (!builder) co_return std::unexpected(std::move(builder.error()));
  auto find = [&] { return BaseOf(policy, python); };
  auto base = co_await pool_.Run(find);
  if (!base) co_return std::unexpected(std::move(base.error()));
  CO_TRY(std::vector<environment::Requirement> wanted, environment::ParseRequirements(configured));
  co_return std::make_unique<SessionLayer>(loop_, **builder, std::move(*base), std::move(wanted),
                                           policy.limits.disk.value, std::move(use));
}

async::Task<void> PackageService::Close() {
  if (home_) co_await home_->Close();
}

// One that the guest waits for. When its run ends the change is stopped, and ends by itself.
struct SessionPackages::Change {
  explicit Change(async::Loop& loop) : stop(loop), done(loop) {}
  run::StopSource stop;
  async::Event done;
  run::HostReply reply;
  Progress progress;
};

SessionPackages::SessionPackages(PackageService& service, Policy policy, std::vector<std::string> configured,
                                 bool allows_changes, Permit permit)
    : service_(service),
      policy_(std::move(policy)),
      configured_(std::move(configured)),
      allows_changes_(allows_changes),
      permit_(std::move(permit)),
      opening_(service.loop(), 1),
      stop_(service.loop()),
      changes_(service.loop()) {}

async::Task<Status> SessionPackages::Open() {
  const auto pass = co_await opening_.Enter();
  if (layer_) co_return Status{};
  if (const Error* why = service_.why()) co_return std::unexpected(*why);
  auto taken = co_await use_("");
  CO_TRY_VOID(taken);
  auto python = co_await describe_();
  if (!python) co_return std::unexpected(std::move(python.error()));
  auto opened = co_await service_.Open(policy_, configured_, std::move(*python), use_);
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  if (stop_.token().ending()) co_return Err(ErrorCode::kClosed, "the session is closing");
  layer_ = std::move(*opened);
  co_return Status{};
}

async::Task<run::HostReply> SessionPackages::Serve(run::HostCall call) {
  const std::string& operation = call.operation;
  auto words = Words(operation, call.arguments);
  if (!words) co_return Failed(words.error().message);
  if (operation == "list") {
    Json json = {{"deps", Json::array()}, {"installed", Json::array()}};
    if (layer_) json = {{"deps", layer_->List()}, {"installed", ToJson(layer_->installed())}};
    run::HostReply reply;
    reply.value = json.dump();
    co_return reply;
  }
  if (operation != "add" && operation != "remove" && operation != "sync") {
    co_return Failed(fmt::format("deps.{}: there are add, remove, list and sync", operation));
  }
  if (!allows_changes_ && operation != "sync") {
    co_return Failed(
        "this session's packages are locked: the caller permits changes with allow_runtime_deps, and the "
        "operator of a server with allow.runtime_deps",
        "DepsDisabledError");
  }
  auto change = std::make_shared<Change>(service_.loop());
  change->progress = std::move(call.progress);
  changes_.Add(Perform(change, operation, std::move(*words)));
  if (const bool done = co_await change->done.Wait(); !done) {
    (void)change->stop.Request(StopReason::kCancel);
    co_return Failed("the run ended before the change");
  }
  co_return std::move(change->reply);
}

async::Task<void> SessionPackages::Perform(std::shared_ptr<Change> change, std::string operation,
                                           std::vector<std::string> words) {
  auto applied = co_await async::Caught(Apply(operation, std::move(words), change->progress, change->stop.token()));
  if (applied) {
    change->reply.value = std::move(*applied);
  } else {
    change->reply = Failed(applied.error().message);
  }
  change->done.Set();
}

async::Task<Result<std::string>> SessionPackages::Apply(const std::string& operation, std::vector<std::string> words,
                                                        Progress progress, run::StopToken stop) {
  CO_TRY(const std::shared_ptr<void> permit, TakePermit());
  auto opened = co_await Open();
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  Json json;
  if (operation == "remove") {
    if (words.size() != 1) co_return Err(ErrorCode::kInvalid, "deps.remove: takes one name");
    auto removed = co_await layer_->Remove(std::move(words.front()), progress, stop);
    if (!removed) co_return std::unexpected(std::move(removed.error()));
    json = {{"removed", *removed}};
  } else {
    Result<DepsChange> change = Err(ErrorCode::kInvalid, "deps.sync: takes no arguments");
    if (operation == "add") {
      change = co_await layer_->Add(std::move(words), progress, stop);
    } else if (words.empty()) {
      change = co_await layer_->Sync(progress, stop);
    }
    if (!change) co_return std::unexpected(std::move(change.error()));
    json = ToJson(*change);
  }
  json["directory"] = layer_->shown().empty() ? Json(nullptr) : Json(layer_->shown());
  co_return json.dump();
}

async::Task<void> SessionPackages::Close() {
  (void)co_await async::Caught(changes_.Join());
  // Requests of others that change packages hold the layer, and end soon after Stop.
  while (layer_ && layer_->is_busy()) (void)co_await async::SleepUntil(async::Clock::now() + kClosingPoll);
  if (layer_) co_await layer_->Close();
}

}  // namespace cella::installer
