#include "executor/local/local_session.h"

#include <fcntl.h>

#include "os/io.h"

namespace cella::executor {
namespace {

Status Stateless() {
  return Err(ErrorCode::kUnsupported,
             "the local executor starts a program for each run and keeps no state: use the sandbox executor");
}

// If it cannot be opened, whoever works in it is told so then.
UniqueFd OpenWorkspace(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// The executor announces each of its runs; to a session only what it says of the isolation is news.
class RunSink : public EventSink {
 public:
  RunSink(EventSink& next, Isolation* isolation) : next_(next), isolation_(isolation) {}

  async::Task<bool> Emit(Event event) override {
    if (auto* started = std::get_if<StartedEvent>(&event)) {
      *isolation_ = std::move(started->isolation);
      co_return true;
    }
    bool wanted = co_await next_.Emit(std::move(event));
    co_return wanted;
  }

 private:
  EventSink& next_;
  Isolation* isolation_;
};

}  // namespace

LocalSession::LocalSession(LocalExecutor& executor, async::Loop& loop, LocalScratch scratch, SessionRequest request)
    : executor_(executor),
      loop_(loop),
      scratch_(std::move(scratch)),
      request_(std::move(request)),
      directory_(OpenWorkspace(request_.policy.workdir.empty() ? scratch_.path() : request_.policy.workdir),
                 std::nullopt) {
  if (request_.policy.workdir.empty()) request_.policy.workdir = scratch_.path();
  isolation_.executor = "local";
}

async::Task<Result<CellEnd>> LocalSession::Run(Cell cell, EventSink& sink) {
  RunRequest request;
  request.block = std::move(cell.block);
  request.policy = request_.policy;
  request.list_files = true;
  if (cell.timeout > std::chrono::nanoseconds(0)) request.policy.limits.timeout.value = cell.timeout;
  if (cell.stdin_text) {
    CO_TRY(request.standard_input,
           os::MakeMemfd("cella-stdin", std::as_bytes(std::span<const char>(*cell.stdin_text))));
  }
  async::Event cancel(loop_);
  cancel_ = &cancel;
  RunSink events(sink, &isolation_);
  auto outcome = co_await executor_.Run(std::move(request), events, cancel);
  cancel_ = nullptr;
  if (!outcome) co_return std::unexpected(std::move(outcome.error()));
  CellEnd end;
  end.outcome = std::move(*outcome);
  co_return std::move(end);
}

void LocalSession::Cancel() {
  if (cancel_ != nullptr) cancel_->Set();
}

async::Task<Status> LocalSession::Reply(std::optional<std::string>) { co_return Stateless(); }

async::Task<Result<std::string>> LocalSession::Ask(const std::string&, language::Question, std::string, size_t) {
  co_return std::unexpected(Stateless().error());
}

// There is nothing to forget.
async::Task<Status> LocalSession::Reset() { co_return Status{}; }

async::Task<Status> LocalSession::SaveCheckpoint(const std::string&) { co_return Stateless(); }

async::Task<Status> LocalSession::Rollback(const std::string&) { co_return Stateless(); }

Status LocalSession::DropCheckpoint(const std::string&) { return Stateless(); }

async::Task<void> LocalSession::Close() { co_return; }

}  // namespace cella::executor
