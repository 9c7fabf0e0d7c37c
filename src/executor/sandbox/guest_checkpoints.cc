// The part of a session that takes checkpoints and restores them.
#include <fcntl.h>

#include "async/descriptor.h"
#include "executor/sandbox/sandbox_guest.h"
#include "os/pidfd.h"

namespace cella::executor {

// A rollback of the first run returns to a fresh interpreter.
std::string SandboxGuest::FirstCheckpoint() const { return spec_.checkpoint == CheckpointMode::kOff ? "off" : "taken"; }

// The checkpoint of the last run is on its way; the one before it goes when it is here.
async::Task<void> SandboxGuest::Settle(Runner& runner) {
  UniqueFd own(fcntl(runner.channel.fd(), F_DUPFD_CLOEXEC, 3));
  if (!own) co_return;
  async::Descriptor arrival(context_.loop, std::move(own), async::Sharing::kShared);
  bool readable = co_await arrival.Readable();
  // If it is not a runner any more, the next run finds out.
  if (readable && runner) settled_badly_ = !TakeIdleFrames(cells_, runner);
}

async::Task<void> SandboxGuest::StopSettling() {
  settling_.Cancel();
  return settling_.Join();
}

void SandboxGuest::OnCheckpoint(const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
  const bool taken = frame.status == "taken" && copy;
  std::string status = taken ? "taken" : frame.status.starts_with("skip") ? frame.status : "skipped: it did not arrive";
  if (frame.name.empty()) {
    checkpoint_due_ = false;
    checkpoint_status_ = std::move(status);
    checkpoint_ = std::move(copy);
    return;
  }
  // A guest may announce a checkpoint that was not requested.
  if (frame.name != asked_name_) return;
  arrived_ = status;
  if (taken && (named_.contains(frame.name) || named_.size() < confine::kMaxNamedCheckpoints)) {
    named_[frame.name] = std::move(*copy);
  }
}

Runner SandboxGuest::Promote(RunnerCopy copy, const std::shared_ptr<Zygote>& zygote) {
  Runner runner;
  runner.channel = std::move(copy.channel);
  runner.zygote = zygote;
  auto pids = os::NamespacePids(copy.pidfd.get());
  if (pids && pids->size() >= 2) {
    runner.group = pids->back();
    runner.tag = zygote ? zygote->Adopt((*pids)[pids->size() - 2]) : jail_->jail.AdoptChild(runner.group);
  }
  runner.pidfd = std::move(copy.pidfd);
  runner.runs = 1;
  return runner;
}

async::Task<StateAfter> SandboxGuest::Recover(const std::string& language) {
  Runner& runner = runners_[language];
  const bool fresh = runner.runs == 0;
  const std::shared_ptr<Zygote> zygote = runner.zygote;
  Discard(&runner);  // and whatever belonged to the run
  if (lost_) co_return StateAfter::kLost;
  if (language != "python") co_return StateAfter::kLost;
  std::optional<RunnerCopy> copy = std::exchange(checkpoint_, std::nullopt);
  if (copy && !os::HasEnded(copy->pidfd.get())) {
    runner = Promote(std::move(*copy), zygote);
    auto covered = co_await AskForCheckpoint(runner, "");
    if (covered) co_return StateAfter::kRolledBack;
    Discard(&runner);
  }
  checkpoint_status_ = FirstCheckpoint();
  if (!fresh) co_return StateAfter::kLost;
  // A new one is as good; but what ended it may have ended the whole jail, and then there is none.
  auto renewed = co_await EnsureRunner(language);
  co_return renewed ? StateAfter::kRolledBack : StateAfter::kLost;
}

async::Task<Status> SandboxGuest::AskForCheckpoint(Runner& runner, const std::string& name) {
  asked_name_ = name;
  arrived_.clear();
  auto status = co_await Exchange(runner, runner::EncodeCheckpoint(name), name);
  if (!status) co_return std::unexpected(std::move(status.error()));
  co_return Status{};
}

async::Task<Status> SandboxGuest::Save(const std::string& name) {
  if (name.empty() || name.size() > 64) co_return Err(ErrorCode::kInvalid, "a checkpoint has a name of 1 to 64 bytes");
  co_await StopSettling();
  if (!named_.contains(name) && named_.size() == confine::kMaxNamedCheckpoints) {
    co_return Err(ErrorCode::kExhausted, "a session keeps {} named checkpoints: drop one first",
                  confine::kMaxNamedCheckpoints);
  }
  auto ensured = co_await EnsureRunner("python");
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  auto status = co_await AskForCheckpoint(runners_["python"], name);
  if (!status) co_return std::unexpected(std::move(status.error()));
  if (arrived_ != "taken") co_return Err(ErrorCode::kUnsupported, "no checkpoint could be taken: {}", arrived_);
  co_return Status{};
}

async::Task<Status> SandboxGuest::Rollback(const std::string& name) {
  co_await StopSettling();
  auto node = named_.extract(name);
  if (node.empty()) co_return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  if (os::HasEnded(node.mapped().pidfd.get())) {
    co_return Err(ErrorCode::kNotFound, "the checkpoint '{}' did not survive", name);
  }
  Runner& runner = runners_["python"];
  const std::shared_ptr<Zygote> zygote = runner.zygote;
  Discard(&runner);
  checkpoint_.reset();
  runner = Promote(std::move(node.mapped()), zygote);
  // Rollback consumes the checkpoint process. Retake it under the same name, and take a new automatic one.
  auto again = co_await AskForCheckpoint(runner, name);
  if (!again) co_return std::unexpected(std::move(again.error()));
  if (spec_.checkpoint == CheckpointMode::kOff) co_return Status{};
  auto covered = co_await AskForCheckpoint(runner, "");
  co_return covered;
}

Status SandboxGuest::Drop(const std::string& name) {
  if (named_.erase(name) == 0) return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  return {};
}

std::vector<std::string> SandboxGuest::List() const {
  std::vector<std::string> names;
  for (const auto& [name, copy] : named_) names.push_back(name);
  return names;
}

}  // namespace cella::executor
