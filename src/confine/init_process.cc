#include "confine/init_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "async/deadline.h"
#include "confine/launch_errors.h"
#include "os/io.h"
#include "os/pidfd.h"

namespace cella::confine {
namespace {

using namespace std::chrono_literals;

// Init needs milliseconds; a jail with much memory on a busy machine takes longer to be taken down.
constexpr auto kEndPatience = 5s;
constexpr auto kTreePatience = 20s;  // a guest's processes may make others while they are killed
constexpr auto kKillPatience = 1s;

}  // namespace

InitProcess::InitProcess(async::Loop& loop, std::optional<os::Process> launcher, UniqueFd control,
                         std::function<void()> destroy)
    : loop_(&loop),
      launcher_(std::move(launcher)),
      control_(loop, std::move(control), async::Sharing::kOurs),
      destroy_(std::move(destroy)) {}

InitProcess::~InitProcess() {
  if (!control_.is_open()) return;
  Kill();
  if (is_root_of_tree_ && launcher_ && !os::WaitUntilEnded(launcher_->pidfd(), kKillPatience)) launcher_->Abandon();
}

Status InitProcess::Send(const jail::Request& request, std::span<const int> fds) {
  return os::SendMessage(control_.fd(), std::as_bytes(std::span<const jail::Request, 1>(&request, 1)), fds);
}

async::Task<Result<InitProcess::BuildReport>> InitProcess::ReadBuildReport() {
  for (;;) {
    bool readable = co_await control_.Readable();
    if (!readable) co_return Err(ErrorCode::kClosed, "cancelled while the jail was built");
    BuildReport told;
    auto buffer = std::as_writable_bytes(std::span(&told.report, 1));
    auto message = os::ReceiveMessage(control_.fd(), buffer, jail::kMaxMessageFds);
    if (!message && message.error().sys_errno == EAGAIN) continue;
    if (!message) co_return std::unexpected(std::move(message.error()));
    if (message->size != sizeof told.report) co_return Err(ErrorCode::kInternal, "the launcher ended without a report");
    // Our end of the socket closes with this object, and with that the jail ends by itself.
    if (message->lost_fds) co_return std::unexpected(NoDescriptors());
    if (told.report.kind == jail::ReportKind::kFailed) co_return std::unexpected(ExplainBuildFailure(told.report));
    told.fds = std::move(message->fds);
    co_return told;
  }
}

async::Task<Result<InitProcess::BuildReport>> InitProcess::WaitBuilt(bool has_init) {
  std::optional<BuildReport> built;
  // The launcher and init write to the same socket, and their first messages come in either order.
  while (!built || (has_init && !init_)) {
    auto told = co_await ReadBuildReport();
    if (!told) co_return std::unexpected(std::move(told.error()));
    switch (told->report.kind) {
      case jail::ReportKind::kCreated:
        if (!told->fds.empty()) init_ = os::Process::Adopt(std::move(told->fds.front()));
        break;
      case jail::ReportKind::kReady: built = std::move(*told); break;
      default: co_return Err(ErrorCode::kInternal, "the launcher sent an unexpected report");
    }
  }
  co_return std::move(*built);
}

void InitProcess::ReapLauncher() {
  if (init_ && launcher_) (void)launcher_->Wait();
  if (init_) launcher_.reset();
}

bool InitProcess::ended() const { return !init_ || os::HasEnded(init_->pidfd()); }

// The end of its socket makes the root kill all of its descendants, and then exit. A guest of the same user may have
// stopped it.
void InitProcess::MakeRootEndItsTree() {
  if (control_.is_open()) (void)shutdown(control_.fd(), SHUT_RDWR);
  if (launcher_) (void)launcher_->Signal(SIGCONT);
}

void InitProcess::Kill() {
  if (destroy_) destroy_();
  if (is_root_of_tree_) {
    MakeRootEndItsTree();
    return;
  }
  if (init_) (void)init_->Signal(SIGKILL);
  if (launcher_) (void)launcher_->Signal(SIGKILL);
}

async::Task<bool> InitProcess::WaitForEnd(const os::Process& process, async::TimePoint deadline) {
  UniqueFd pidfd(fcntl(process.pidfd(), F_DUPFD_CLOEXEC, 3));
  if (!pidfd) co_return os::HasEnded(process.pidfd());
  async::Descriptor gone(*loop_, std::move(pidfd), async::Sharing::kShared);
  auto readable = co_await async::WithDeadline(gone.Readable(), deadline);
  // Cancelled: this process is about to end, and what comes next must find the jail gone.
  if (readable && !*readable) (void)os::WaitUntilEnded(process.pidfd(), kKillPatience);
  co_return os::HasEnded(process.pidfd());
}

async::Task<void> InitProcess::End() {
  // Init exits when its socket closes, and in its pid namespace everything with it. A process that an application
  // forked may hold our end too.
  if (control_.is_open()) (void)shutdown(control_.fd(), SHUT_RDWR);
  if (is_root_of_tree_) MakeRootEndItsTree();
  control_.Close();
  if (!init_ && !launcher_) co_return;
  os::Process& last = init_ ? *init_ : *launcher_;
  const async::TimePoint deadline = async::Clock::now() + (is_root_of_tree_ ? kTreePatience : kEndPatience);
  bool is_gone = co_await WaitForEnd(last, deadline);
  // A cancellation cuts one wait short.
  if (!is_gone && async::Clock::now() < deadline) is_gone = co_await WaitForEnd(last, deadline);
  // The root of an unconfined tree dies after its tree, never before: its death would set the rest of the tree free.
  if (!is_gone && !is_root_of_tree_) {
    (void)last.Signal(SIGKILL);
    is_gone = co_await WaitForEnd(last, deadline + kKillPatience);
  }
  // The kernel holds it, in uninterruptible sleep or a frozen group. Its group of resources is left to a later sweep.
  if (!is_gone) last.Abandon();
  if (is_gone) (void)last.Wait();
  // Having built the jail, the launcher is gone long since.
  if (init_ && launcher_) (void)launcher_->Wait();
}

}  // namespace cella::confine
