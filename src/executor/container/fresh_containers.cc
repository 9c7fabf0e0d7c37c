#include "executor/container/fresh_containers.h"

#include "executor/container/inside.h"

namespace cella::executor {

using async::Task;

FreshContainers::FreshContainers(const Policy& policy, Opener open, std::unique_ptr<run::Guest> first)
    : open_(std::move(open)), guest_(std::move(first)), isolation_(guest_->isolation()), workdir_(OpenWorkdir(policy)) {
  // Each run has another, unless the caller gives it a name.
  if (policy.container.name.empty()) isolation_.details.erase("container");
  isolation_.details["fresh"] = "run";
}

// Blocks of one run share their variables, which no later run has.
const run::Traits& FreshContainers::traits(std::string_view language) const {
  static constexpr run::Traits kCellsWithoutState{
      .state = false, .value = true, .errors = true, .display = true, .input = true, .interrupt = true};
  return guest_->traits(language).value ? kCellsWithoutState : run::kPrograms;
}

Task<Status> FreshContainers::Replace(run::StopToken stop) {
  if (std::exchange(is_open_, false)) co_await guest_->Close();
  auto opened = co_await open_(stop);
  CO_TRY(std::unique_ptr<run::Guest> guest, std::move(opened));
  guest_ = std::move(guest);
  is_open_ = true;
  is_used_ = false;
  if (listens_) {
    // What connects in this container reaches the listener of the first one.
    auto listener = co_await guest_->call_socket()->Listen();
    if (!listener) co_return std::unexpected(std::move(listener.error()));
  }
  if (!packages_.empty()) {
    auto used = co_await guest_->packages()->Use(packages_);
    if (!used) co_return std::unexpected(std::move(used.error()));
  }
  co_return Status{};
}

Task<Result<std::unique_ptr<run::Execution>>> FreshContainers::Begin(const run::BlockTurn& turn, run::StopToken stop) {
  if (turn.first && (is_used_ || !is_open_)) {
    auto replaced = co_await Replace(stop);
    // The next run tries again.
    if (!replaced) is_used_ = true;
    CO_TRY_VOID(replaced);
  }
  is_used_ = true;
  auto begun = co_await guest_->Begin(turn, stop);
  co_return begun;
}

Task<Result<run::StateReport>> FreshContainers::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  auto report = co_await guest_->AfterBlock(facts, sink);
  if (report) *report = run::StateReport{};
  co_return report;
}

Task<void> FreshContainers::Close() {
  if (std::exchange(is_open_, false)) co_await guest_->Close();
}

// May be asked while the container is replaced: the old one then answers that it has ended.
Task<run::GuestUsage> FreshContainers::MeasureUsage() {
  const std::shared_ptr<run::Guest> guest = guest_;
  auto usage = co_await guest->MeasureUsage();
  co_return usage;
}

Task<Result<std::string>> FreshContainers::Use(std::string directory) {
  packages_ = directory;
  const std::shared_ptr<run::Guest> guest = guest_;
  auto used = co_await guest->packages()->Use(std::move(directory));
  co_return used;
}

Task<void> FreshContainers::AskPython(run::StopToken stop) {
  const std::shared_ptr<run::Guest> guest = guest_;
  co_await guest->packages()->AskPython(stop);
}

Task<Result<UniqueFd>> FreshContainers::Listen() {
  auto listener = co_await guest_->call_socket()->Listen();
  listens_ = listener.has_value();
  co_return listener;
}

}  // namespace cella::executor
