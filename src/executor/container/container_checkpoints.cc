// The part of a session that takes checkpoints and goes on from them: what guest_checkpoints.cc is for a jail. The
// copies are processes of the container; the bridge stands for their sockets.
#include "executor/container/container_session.h"
#include "os/pidfd.h"

namespace cella::executor {

using async::Task;

// A fresh interpreter stands behind the first run.
std::string ContainerSession::FirstCheckpoint() const {
  return spec_.checkpoint == CheckpointMode::kOff ? "off" : "taken";
}

void ContainerSession::OnCheckpoint(const runner::CheckpointFrame& frame, std::optional<RunnerCopy> copy) {
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

Runner ContainerSession::Promote(RunnerCopy copy) {
  Runner runner;
  runner.channel = std::move(copy.channel);
  runner.pidfd = std::move(copy.pidfd);
  runner.group = copy.group;
  runner.tag = jail_.AdoptChild(copy.group);
  runner.runs = 1;
  return runner;
}

Task<StateAfter> ContainerSession::Recover(const std::string& language) {
  Runner& runner = runners_[language];
  const bool fresh = runner.runs == 0;
  Discard(runner);
  if (jail_.gone()) co_return StateAfter::kLost;
  // One that had no state has lost none.
  const StateAfter without = fresh ? StateAfter::kRolledBack : StateAfter::kLost;
  if (language != "python") co_return without;
  std::optional<RunnerCopy> copy = std::exchange(checkpoint_, std::nullopt);
  checkpoint_due_ = false;
  if (copy && !os::HasEnded(copy->pidfd.get())) {
    runner = Promote(std::move(*copy));
    auto covered = co_await AskForCheckpoint(runner, "");
    if (covered) co_return StateAfter::kRolledBack;
    Discard(runner);
  }
  checkpoint_status_ = FirstCheckpoint();
  co_return jail_.gone() ? StateAfter::kLost : without;
}

Task<Status> ContainerSession::AskForCheckpoint(Runner& runner, const std::string& name) {
  asked_name_ = name;
  arrived_.clear();
  auto status = co_await Exchange(runner, runner::EncodeCheckpoint(name), name);
  if (!status) co_return std::unexpected(std::move(status.error()));
  co_return Status{};
}

Task<Status> ContainerSession::Save(const std::string& name) {
  if (name.empty() || name.size() > 64) co_return Err(ErrorCode::kInvalid, "a checkpoint has a name of 1 to 64 bytes");
  if (!named_.contains(name) && named_.size() == confine::kMaxNamedCheckpoints) {
    co_return Err(ErrorCode::kExhausted, "a session keeps {} named checkpoints: drop one first",
                  confine::kMaxNamedCheckpoints);
  }
  auto ensured = co_await EnsureRunner("python");
  CO_TRY_VOID(ensured);
  auto status = co_await AskForCheckpoint(runners_["python"], name);
  CO_TRY_VOID(status);
  if (arrived_ != "taken") co_return Err(ErrorCode::kUnsupported, "no checkpoint could be taken: {}", arrived_);
  co_return Status{};
}

Task<Status> ContainerSession::Rollback(const std::string& name) {
  auto node = named_.extract(name);
  if (node.empty()) co_return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  if (os::HasEnded(node.mapped().pidfd.get())) {
    co_return Err(ErrorCode::kNotFound, "the checkpoint '{}' did not survive", name);
  }
  Runner& runner = runners_["python"];
  Discard(runner);
  checkpoint_.reset();
  runner = Promote(std::move(node.mapped()));
  // Rollback consumes the checkpoint process. Retake it under the same name, and take a new automatic one.
  auto again = co_await AskForCheckpoint(runner, name);
  CO_TRY_VOID(again);
  if (spec_.checkpoint == CheckpointMode::kOff) co_return Status{};
  auto covered = co_await AskForCheckpoint(runner, "");
  co_return covered;
}

Status ContainerSession::Drop(const std::string& name) {
  if (named_.erase(name) == 0) return Err(ErrorCode::kNotFound, "there is no checkpoint '{}'", name);
  return {};
}

std::vector<std::string> ContainerSession::List() const {
  std::vector<std::string> names;
  for (const auto& [name, copy] : named_) names.push_back(name);
  return names;
}

}  // namespace cella::executor
