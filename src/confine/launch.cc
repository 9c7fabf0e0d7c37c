#include "confine/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "async/deadline.h"
#include "confine/launch_errors.h"
#include "os/io.h"
#include "os/pidfd.h"
#include "os/syscalls.h"

namespace cella::confine {
namespace {

using namespace std::chrono_literals;

// Init needs milliseconds; a jail with much memory on a busy machine takes longer to be taken down.
constexpr auto kEndPatience = 5s;
constexpr auto kKillPatience = 1s;
constexpr auto kListenPatience = 10s;

std::span<const std::byte> Bytes(const jail::Request& request) {
  return std::as_bytes(std::span<const jail::Request, 1>(&request, 1));
}

}  // namespace

Launch::Launch(async::Loop& loop, std::optional<os::Process> launcher, UniqueFd control)
    : loop_(&loop), launcher_(std::move(launcher)), control_(loop, std::move(control), async::Sharing::kOurs) {}

Launch::~Launch() {
  if (control_.is_open()) KillInit();
}

Result<Launch> Launch::Start(async::Loop& loop, const std::string& launcher) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return SysErr(errno, "open '/dev/null'");
  os::SpawnOptions options;
  options.program = launcher;
  options.argv = {"cella-launch"};
  options.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {sockets.theirs.get(), jail::kControlFd}};
  auto process = os::Process::Spawn(options);
  if (!process) return std::unexpected(std::move(process.error()).WithContext("the launcher"));
  return Launch(loop, std::move(*process), std::move(sockets.ours));
}

Launch Launch::Adopt(async::Loop& loop, UniqueFd control, std::function<void()> destroy) {
  Launch launch(loop, std::nullopt, std::move(control));
  launch.destroy_ = std::move(destroy);
  return launch;
}

Result<Launch> Launch::MakeEmptyJail(const jail::EmptyJailSpec& jail, std::span<const int> cgroups,
                                     std::span<const UniqueFd> mounts) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  jail::Request request = {};
  request.kind = jail::RequestKind::kEmptyJail;
  request.jail = jail;
  request.jail.cgroup_count = static_cast<uint32_t>(cgroups.size());
  request.jail.mount_count = static_cast<uint32_t>(mounts.size());
  std::vector<int> fds = {sockets.theirs.get()};
  fds.insert(fds.end(), cgroups.begin(), cgroups.end());
  for (const UniqueFd& mount : mounts) fds.push_back(mount.get());
  TRY_VOID(os::SendMessage(control_.fd(), Bytes(request), fds));
  return Launch(*loop_, std::nullopt, std::move(sockets.ours));
}

Result<UniqueFd> Launch::Spawn(const ExecRequest& exec, std::span<const int> cgroups) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  TRY(UniqueFd block, EncodeExec(exec));
  jail::Request request = {};
  request.kind = jail::RequestKind::kSpawn;
  std::vector<int> fds = {block.get(), sockets.theirs.get()};
  fds.insert(fds.end(), cgroups.begin(), cgroups.end());
  TRY_VOID(os::SendMessage(control_.fd(), Bytes(request), fds));
  return std::move(sockets.ours);
}

Status Launch::Build(JailSpecBuilder& builder, const os::Cgroup& cgroup) {
  builder.spec().cgroup_v1_count = static_cast<uint32_t>(cgroup.v1_tasks().size());
  builder.spec().cgroup_v2 = cgroup.v2_dir() >= 0 ? 1 : 0;
  TRY(UniqueFd spec, builder.Finish());
  std::vector<int> fds = {spec.get()};
  for (const UniqueFd& tasks : cgroup.v1_tasks()) fds.push_back(tasks.get());
  if (cgroup.v2_dir() >= 0) fds.push_back(cgroup.v2_dir());
  jail::Request request = {};
  request.kind = jail::RequestKind::kBuild;
  return os::SendMessage(control_.fd(), Bytes(request), fds);
}

async::Task<Result<Launch::BuildReport>> Launch::ReadBuildReport() {
  for (;;) {
    bool readable = co_await control_.Readable();
    if (!readable) co_return Err(ErrorCode::kClosed, "cancelled while the jail was built");
    BuildReport told;
    auto buffer = std::as_writable_bytes(std::span(&told.report, 1));
    auto message = os::ReceiveMessage(control_.fd(), buffer, jail::kMaxMessageFds);
    if (!message && message.error().sys_errno == EAGAIN) continue;
    if (!message) co_return std::unexpected(std::move(message.error()));
    if (message->size != sizeof told.report) co_return Err(ErrorCode::kInternal, "the launcher ended without a report");
    // Our end of the socket closes with this launch, and with that the jail ends by itself.
    if (message->lost_fds) co_return std::unexpected(NoDescriptors());
    if (told.report.kind == jail::ReportKind::kFailed) co_return std::unexpected(ExplainBuildFailure(told.report));
    told.fds = std::move(message->fds);
    co_return told;
  }
}

async::Task<Result<std::vector<UniqueFd>>> Launch::WaitSources() {
  auto told = co_await ReadBuildReport();
  if (!told) co_return std::unexpected(std::move(told.error()));
  if (told->report.kind != jail::ReportKind::kReady) {
    co_return Err(ErrorCode::kInternal, "the launcher sent an unexpected report");
  }
  co_return std::move(told->fds);
}

async::Task<Result<Launch::Ready>> Launch::WaitReady(Confinement confinement) {
  Ready ready;
  // The launcher and init write to the same socket, and their first messages come in either order. Both must be there:
  // without init's pidfd it could not be killed.
  for (bool is_ready = false; !is_ready || (!init_ && confinement == Confinement::kJail);) {
    auto told = co_await ReadBuildReport();
    if (!told) co_return std::unexpected(std::move(told.error()));
    switch (told->report.kind) {
      case jail::ReportKind::kCreated:
        if (!told->fds.empty()) init_ = os::Process::Adopt(std::move(told->fds.front()));
        break;
      case jail::ReportKind::kReady:
        if (!told->fds.empty()) {
          ready.workspace = std::move(told->fds.front());
          told->fds.erase(told->fds.begin());
        }
        ready.entry = std::move(told->fds);
        ready.landlock_abi = static_cast<int>(told->report.landlock_abi);
        ready.own_proc = told->report.own_proc != 0;
        is_ready = true;
        break;
      default: co_return Err(ErrorCode::kInternal, "the launcher sent an unexpected report");
    }
  }
  co_return ready;
}

Result<uint32_t> Launch::Exec(const ExecRequest& request, std::span<const int, 3> stdio, int session) {
  TRY(UniqueFd block, EncodeExec(request));
  std::array<int, 5> fds = {block.get(), stdio[0], stdio[1], stdio[2], session};
  jail::Request message = {};
  message.kind = jail::RequestKind::kExec;
  message.tag = ++last_tag_;
  TRY_VOID(os::SendMessage(control_.fd(), Bytes(message), std::span(fds).first(session >= 0 ? 5 : 4)));
  return last_tag_;
}

void Launch::TakeReports() {
  // What is filed is bounded, because a run that is over may never ask for its report.
  constexpr size_t kKept = 64;
  auto file = [](std::map<uint32_t, jail::Report>& reports, const jail::Report& report) {
    reports[report.tag] = report;
    if (reports.size() > kKept) reports.erase(reports.begin());
  };
  while (!gone_) {
    jail::Report report = {};
    auto message = os::ReceiveMessage(control_.fd(), std::as_writable_bytes(std::span(&report, 1)));
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

std::optional<Result<int>> Launch::TakeStart(uint32_t tag) {
  auto node = started_.extract(tag);
  if (node.empty()) return std::nullopt;
  const jail::Report& report = node.mapped();
  if (report.kind == jail::ReportKind::kFailed) return std::unexpected(ExplainExecFailure(report));
  return report.pid;
}

std::optional<Result<std::vector<UniqueFd>>> Launch::TakeLent() { return std::exchange(lent_, std::nullopt); }

async::Task<Result<UniqueFd>> Launch::Listen() {
  const async::TimePoint deadline = async::Clock::now() + kListenPatience;
  listener_.reset();
  Send(jail::RequestKind::kListen, 0, 0);
  for (;;) {
    TakeReports();
    if (listener_) co_return *std::exchange(listener_, std::nullopt);
    if (gone_) co_return Err(ErrorCode::kClosed, "the jail has ended");
    auto readable = co_await async::WithDeadline(control_.Readable(), deadline);
    if (!readable || !*readable) co_return Err(ErrorCode::kClosed, "the jail does not answer");
  }
}

void Launch::ReapLauncher() {
  if (init_ && launcher_) (void)launcher_->Wait();
  if (init_) launcher_.reset();
}

bool Launch::ended() const { return !init_ || os::HasEnded(init_->pidfd()); }

uint32_t Launch::Adopt(int pid) {
  Send(jail::RequestKind::kAdopt, 0, pid, ++last_tag_);
  return last_tag_;
}

std::optional<jail::Report> Launch::TakeEnd(uint32_t tag) {
  auto node = ended_.extract(tag);
  if (node.empty()) return std::nullopt;
  return node.mapped();
}

void Launch::Send(jail::RequestKind kind, int signal, int group, uint32_t tag) {
  jail::Request request = {};
  request.kind = kind;
  request.signal = signal;
  request.group = group;
  request.tag = tag;
  // A jail that is gone needs no message.
  (void)os::SendMessage(control_.fd(), Bytes(request), {});
}

void Launch::Signal(int signal, int group) { Send(jail::RequestKind::kSignal, signal, group); }

void Launch::Nudge(int group) { Send(jail::RequestKind::kNudge, 0, group); }

void Launch::KillGuest(int group) { Send(jail::RequestKind::kKill, 0, group); }

void Launch::WatchRun(int group) { Send(jail::RequestKind::kWatch, 0, group); }

void Launch::AskForEntry() { Send(jail::RequestKind::kLend, 0, 0); }

uint32_t Launch::AskForEcho() {
  Send(jail::RequestKind::kEcho, 0, 0, ++last_tag_);
  return last_tag_;
}

void Launch::KillInit() {
  if (destroy_) destroy_();
  if (init_) (void)init_->Signal(SIGKILL);
  if (launcher_) (void)launcher_->Signal(SIGKILL);
}

async::Task<bool> Launch::WaitForEnd(const os::Process& process, async::TimePoint deadline) {
  UniqueFd pidfd(fcntl(process.pidfd(), F_DUPFD_CLOEXEC, 3));
  if (!pidfd) co_return os::HasEnded(process.pidfd());
  async::Descriptor gone(*loop_, std::move(pidfd), async::Sharing::kShared);
  auto readable = co_await async::WithDeadline(gone.Readable(), deadline);
  // Cancelled: this process is about to end, and what comes next must find the jail gone.
  if (readable && !*readable) (void)os::WaitUntilEnded(process.pidfd(), kKillPatience);
  co_return os::HasEnded(process.pidfd());
}

async::Task<void> Launch::End() {
  // Init exits when its socket closes, and in its pid namespace everything with it. A process that an application
  // forked may hold our end too.
  if (control_.is_open()) (void)shutdown(control_.fd(), SHUT_RDWR);
  control_.Close();
  if (!init_ && !launcher_) co_return;
  os::Process& last = init_ ? *init_ : *launcher_;
  const async::TimePoint deadline = async::Clock::now() + kEndPatience;
  bool is_gone = co_await WaitForEnd(last, deadline);
  // A cancellation cuts one wait short. Killed too early, an unconfined init leaves the processes of its tree behind.
  if (!is_gone && async::Clock::now() < deadline) is_gone = co_await WaitForEnd(last, deadline);
  if (!is_gone) {
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
