#include "confine/jail.h"

#include <array>

#include "async/deadline.h"
#include "confine/launch_errors.h"
#include "os/io.h"

namespace cella::confine {
namespace {

using namespace std::chrono_literals;

constexpr auto kListenPatience = 10s;

}  // namespace

Jail Jail::Adopt(async::Loop& loop, UniqueFd control, std::function<void()> destroy) {
  return {InitProcess(loop, std::nullopt, std::move(control), std::move(destroy)), false};
}

async::Task<Result<Jail::Ready>> Jail::WaitReady() {
  auto told = co_await init_.WaitBuilt(has_init_);
  if (!told) co_return std::unexpected(std::move(told.error()));
  if (!has_init_) init_.BecomeRootOfTree();
  Ready ready;
  if (!told->fds.empty()) {
    ready.workspace = std::move(told->fds.front());
    told->fds.erase(told->fds.begin());
  }
  ready.entry = std::move(told->fds);
  ready.landlock_abi = static_cast<int>(told->report.landlock_abi);
  ready.own_proc = told->report.own_proc != 0;
  co_return ready;
}

Result<uint32_t> Jail::Exec(const ExecRequest& request, std::span<const int, 3> stdio, int session) {
  TRY(UniqueFd block, EncodeExec(request));
  std::array<int, 5> fds = {block.get(), stdio[0], stdio[1], stdio[2], session};
  jail::Request message = {};
  message.kind = jail::RequestKind::kExec;
  message.tag = ++last_tag_;
  TRY_VOID(init_.Send(message, std::span(fds).first(session >= 0 ? 5 : 4)));
  return last_tag_;
}

void Jail::TakeReports() {
  // What is filed is bounded, because a run that is over may never ask for its report.
  constexpr size_t kKept = 64;
  auto file = [](std::map<uint32_t, jail::Report>& reports, const jail::Report& report) {
    reports[report.tag] = report;
    if (reports.size() > kKept) reports.erase(reports.begin());
  };
  while (!gone_) {
    jail::Report report = {};
    auto message = os::ReceiveMessage(init_.control().fd(), std::as_writable_bytes(std::span(&report, 1)));
    if (!message && message.error().sys_errno == EAGAIN) return;
    if (!message || message->size == 0) {
      gone_ = true;
      return;
    }
    if (message->size != sizeof report) continue;
    switch (report.kind) {
      case jail::ReportKind::kStarted:
      case jail::ReportKind::kFailed: file(started_, report); break;
      case jail::ReportKind::kExited: file(ended_, report); break;
      case jail::ReportKind::kEchoed: echoed_ = report.tag; break;
      case jail::ReportKind::kBreached: breach_ = report.killed_for; break;
      case jail::ReportKind::kKilled: killed_ = true; break;
      case jail::ReportKind::kLent:
        if (message->lost_fds) {
          lent_ = std::unexpected(NoDescriptors());
        } else {
          lent_ = std::move(message->fds);
        }
        break;
      case jail::ReportKind::kListening:
        if (!message->fds.empty()) {
          listener_ = std::move(message->fds.front());
        } else if (message->lost_fds) {
          listener_ = std::unexpected(NoDescriptors());
        } else {
          listener_ = SysErr(report.error, "bind '{}' in the jail", jail::kCallSocket);
        }
        break;
      default: break;
    }
  }
}

std::optional<Result<int>> Jail::TakeStart(uint32_t tag) {
  auto node = started_.extract(tag);
  if (node.empty()) return std::nullopt;
  const jail::Report& report = node.mapped();
  if (report.kind == jail::ReportKind::kFailed) return std::unexpected(ExplainExecFailure(report));
  return report.pid;
}

std::optional<Result<std::vector<UniqueFd>>> Jail::TakeLent() { return std::exchange(lent_, std::nullopt); }

async::Task<Result<UniqueFd>> Jail::Listen() {
  const async::TimePoint deadline = async::Clock::now() + kListenPatience;
  listener_.reset();
  Send(jail::RequestKind::kListen, 0, 0);
  for (;;) {
    TakeReports();
    if (listener_) co_return *std::exchange(listener_, std::nullopt);
    if (gone_) co_return Err(ErrorCode::kClosed, "the jail has ended");
    auto readable = co_await async::WithDeadline(init_.control().Readable(), deadline);
    if (!readable || !*readable) co_return Err(ErrorCode::kClosed, "the jail does not answer");
  }
}

uint32_t Jail::AdoptChild(int pid) {
  Send(jail::RequestKind::kAdopt, 0, pid, ++last_tag_);
  return last_tag_;
}

std::optional<jail::Report> Jail::TakeEnd(uint32_t tag) {
  auto node = ended_.extract(tag);
  if (node.empty()) return std::nullopt;
  return node.mapped();
}

void Jail::Send(jail::RequestKind kind, int signal, int group, uint32_t tag) {
  jail::Request request = {};
  request.kind = kind;
  request.signal = signal;
  request.group = group;
  request.tag = tag;
  // A jail that is gone needs no message.
  (void)init_.Send(request, {});
}

void Jail::Signal(int signal, int group) { Send(jail::RequestKind::kSignal, signal, group); }

void Jail::Nudge(int group) { Send(jail::RequestKind::kNudge, 0, group); }

void Jail::KillGuest(int group) { Send(jail::RequestKind::kKill, 0, group); }

void Jail::WatchRun(int group) { Send(jail::RequestKind::kWatch, 0, group); }

void Jail::AskForEntry() { Send(jail::RequestKind::kLend, 0, 0); }

uint32_t Jail::AskForEcho() {
  Send(jail::RequestKind::kEcho, 0, 0, ++last_tag_);
  return last_tag_;
}

}  // namespace cella::confine
