#include "executor/container/container.h"

#include <sys/random.h>

#include <array>

#include "async/deadline.h"
#include "base/sha256.h"
#include "executor/container/owner.h"
#include "executor/container/programs_archive.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

constexpr auto kAgentPatience = 20s;
constexpr auto kPullPatience = 15s;
constexpr auto kRemovalPatience = 10s;

Result<std::string> RandomHex() {
  Sha256Digest bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return SysErr(errno, "random numbers");
  }
  return ToHex(bytes);
}

// A bind mount's source is not there, as the engine sees it: in the words of Docker, and of Podman.
bool MissesSource(const Error& error) {
  auto contains = [&](const char* words) { return error.message.find(words) != std::string::npos; };
  return contains("bind source path does not exist") ||
         (contains("statfs") && (contains("no such file or directory") || contains("permission denied")));
}

bool Names(const Error& error, const std::string& path) {
  return error.message.ends_with(path) || error.message.find(path + ":") != std::string::npos;
}

}  // namespace

Result<std::string> AuthArgument(const std::string& token) {
  if (token.empty()) return std::string("none");
  TRY(std::string salt, RandomHex());
  return salt + ":" + Sha256Hex(salt + ":" + token);
}

// With the programs bound from their directory, which is the first bind; where the engine does not see it, they are
// copied.
Task<Result<std::string>> Container::CreateOnce(const docker::ContainerSpec& spec, const std::string& name) {
  auto created = co_await engine_.Create(spec, name);
  const std::string programs = spec.binds.empty() ? "" : spec.binds.front().source;
  const bool unseen = !created && MissesSource(created.error()) && Names(created.error(), programs);
  binds_programs_ = created.has_value() && !programs.empty();
  if (!unseen || programs.empty()) co_return created;
  co_return co_await CreateWithCopies(spec, name);
}

// The programs are in a volume of the container's own.
Task<Result<std::string>> Container::CreateWithCopies(docker::ContainerSpec spec, const std::string& name) {
  CO_TRY(std::string archive, ArchivePrograms(spec.binds.front().source));
  spec.volumes.push_back(spec.binds.front().target);
  spec.binds.erase(spec.binds.begin());
  auto created = co_await engine_.Create(spec, name);
  if (!created) co_return created;
  auto put = co_await engine_.PutArchive(*created, spec.volumes.back(), std::move(archive));
  if (!put) {
    (void)co_await engine_.Remove(*created);
    co_return std::unexpected(std::move(put.error()));
  }
  co_return created;
}

Task<void> Container::RemoveAndWait(const std::string& id) {
  auto removed = co_await engine_.Remove(id);
  if (removed) (void)co_await async::WithDeadline(engine_.WaitRemoved(id), async::Clock::now() + kRemovalPatience);
}

Task<Status> Container::CreateAgain() {
  co_await RemoveAndWait(std::exchange(id_, {}));
  auto created = co_await CreateWithCopies(spec_, asked_name_);
  CO_TRY(id_, std::move(created));
  binds_programs_ = false;
  auto inspected = co_await engine_.Inspect(id_);
  CO_TRY(facts_, std::move(inspected));
  co_return Status{};
}

Task<bool> Container::RemoveLeftover(const std::string& name, const std::string& owner) {
  auto found = co_await engine_.Inspect(name);
  if (!found) co_return false;
  auto label = found->labels.find(kOwnerLabel);
  if (label == found->labels.end()) co_return false;
  if (label->second != owner && !IsOrphan(label->second)) co_return false;
  auto removed = co_await engine_.Remove(found->id);
  if (removed)
    (void)co_await async::WithDeadline(engine_.WaitRemoved(found->id), async::Clock::now() + kRemovalPatience);
  co_return removed.has_value();
}

// A request to stop drops the connection, at which the engine ends the pull.
Task<Status> Container::Pull(const std::string& image, const Waiting& waiting) {
  bool is_over = false;
  auto pull = [&]() -> Task<Status> {
    auto pulled = co_await engine_.Pull(image, kPullPatience, waiting.progress);
    is_over = true;
    co_return pulled;
  };
  auto ending = [&]() -> Task<bool> {
    const bool ends = co_await waiting.stop.Ending();
    if (ends || is_over) co_return ends;
    // Nothing can stop the pull: this ends when the pull does.
    (void)co_await async::SleepUntil(async::Clock::now() + std::chrono::hours(24 * 365));
    co_return false;
  };
  auto first = co_await async::FirstOf(pull(), ending());
  if (auto* pulled = std::get_if<0>(&first)) co_return std::move(*pulled);
  co_return Err(ErrorCode::kClosed, "stopped before it began");
}

Task<Status> Container::Create(docker::ContainerSpec spec, const ContainerPolicy& policy, const Waiting& waiting) {
  auto_remove_ = policy.auto_remove;
  stops_ = policy.stop_container;
  token_ = policy.auth_token;
  if (token_.empty() && !policy.auth_disabled) {
    CO_TRY(token_, RandomHex());
  }
  // Of two containers of this process with one name, the second is refused.
  if (!policy.name.empty() && live_.insert(policy.name).second) name_ = policy.name;
  CO_TRY(std::string auth, AuthArgument(token_));
  spec.entrypoint.push_back("--auth=" + auth);
  spec_ = spec;
  asked_name_ = policy.name;
  auto created = co_await CreateOnce(spec, policy.name);
  const bool has_image =
      created || created.error().code != ErrorCode::kNotFound || created.error().sys_errno == ECONNREFUSED;
  if (!has_image && policy.pull) {
    auto pulled = co_await Pull(spec.image, waiting);
    CO_TRY_VOID(pulled);
    created = co_await CreateOnce(spec, policy.name);
  }
  if (!created && created.error().code == ErrorCode::kExhausted && !name_.empty()) {
    const bool freed = co_await RemoveLeftover(policy.name, spec.labels[kOwnerLabel]);
    if (freed) created = co_await CreateOnce(spec, policy.name);
  }
  // The name belongs to another container, which waiting does not change.
  if (!created && created.error().code == ErrorCode::kExhausted) created.error().code = ErrorCode::kInvalid;
  if (!created && MissesSource(created.error())) {
    created.error().message += policy.bind_dir.empty()
                                   ? "; if this program runs in a container itself, name the directory as the engine's "
                                     "machine does with bind_dir"
                                   : "; bind_dir must be a directory of the engine's machine";
  }
  CO_TRY(id_, std::move(created));
  auto inspected = co_await engine_.Inspect(id_);
  CO_TRY(facts_, std::move(inspected));
  co_return Status{};
}

Task<Result<std::unique_ptr<Container>>> Container::Create(async::Loop& loop, docker::Engine& engine,
                                                           std::set<std::string>& live, docker::ContainerSpec spec,
                                                           const ContainerPolicy& policy, Waiting waiting) {
  std::unique_ptr<Container> container(new Container(loop, engine, live));
  auto done = co_await container->Create(std::move(spec), policy, waiting);
  if (!done) {
    co_await container->End();
    co_return std::unexpected(std::move(done.error()));
  }
  co_return container;
}

// The engine's machine may have another build of these programs at that path, or none.
Task<Status> Container::Start(bool is_session, jail::WatchLimits watch, std::shared_ptr<CallListener> calls) {
  auto started = co_await StartOnce(is_session, watch, calls);
  const bool lacks_agent = !started && started.error().message.find("cella-agent") != std::string::npos;
  if (lacks_agent && binds_programs_) {
    auto created = co_await CreateAgain();
    CO_TRY_VOID(created);
    started = co_await StartOnce(is_session, watch, std::move(calls));
  }
  token_.clear();
  co_return started;
}

Task<Status> Container::StartOnce(bool is_session, jail::WatchLimits watch, std::shared_ptr<CallListener> calls) {
  auto attached = co_await engine_.Attach(id_);
  CO_TRY(docker::AttachedStream stream, std::move(attached));
  auto started = co_await engine_.Start(id_);
  CO_TRY_VOID(started);
  AgentBridge::Options hello{token_, is_session, !stops_, watch, std::move(calls)};
  auto deadline = async::Clock::now() + kAgentPatience;
  auto opened = co_await AgentBridge::Open(loop_, std::move(stream), std::move(hello), deadline);
  CO_TRY(bridge_, std::move(opened));
  co_return Status{};
}

Task<void> Container::Kill() {
  if (keeps_ && !auto_remove_) {
    (void)co_await engine_.Kill(id_);
  } else {
    (void)co_await engine_.Remove(id_);
  }
}

void Container::Destroy() {
  if (!id_.empty()) tasks_.Add(Kill());
}

// The agent has ended with its stream, and the container with it.
Task<void> Container::Stop() {
  const auto deadline = async::Clock::now() + kRemovalPatience;
  auto stopped = co_await async::WithDeadline(engine_.WaitStopped(id_), deadline);
  if (!stopped || !*stopped) (void)co_await engine_.Kill(id_);
}

Task<void> Container::End() {
  if (bridge_) co_await bridge_->Close();
  co_await tasks_.Join();
  if (!id_.empty()) co_await EndContainer();
  id_.clear();
  live_.erase(name_);
}

Task<void> Container::EndContainer() {
  if (keeps_ && !stops_) {
    // It stays, alone with its agent.
  } else if (keeps_ && !auto_remove_) {
    co_await Stop();
  } else {
    // The engine removes what is left. Asked to remove it as well, it does not wait for a container that is stuck.
    co_await RemoveAndWait(id_);
  }
}

}  // namespace cella::executor
