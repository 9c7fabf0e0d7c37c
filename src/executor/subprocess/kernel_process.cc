#include "executor/subprocess/kernel_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/text.h"
#include "base/units.h"
#include "executor/subprocess/kernel_messages.h"
#include "jupyter/json.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "run/machine.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using jupyter::Channel;

enum Key { kKeyOut, kKeyErr, kKeyControl };

constexpr size_t kLastWords = 4096;
// A request to stop does not wake a start; it is looked for this often.
constexpr auto kStopPoll = 50ms;
// After the reply to kernel_info, for its status on iopub: without it the subscription had come too late.
constexpr auto kIopubPatience = 10ms;

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) return fmt::format("by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("with exit code {}", WEXITSTATUS(status));
}

}  // namespace

KernelProcess::KernelProcess(KernelPlace& place, KernelCommand command, KernelDirectory directory,
                             async::ReadySet ready)
    : place_(place),
      command_(std::move(command)),
      directory_(std::move(directory)),
      connection_file_(fmt::format("{}/{}", directory_.path, kConnectionFile)),
      ready_(std::move(ready)) {}

async::Task<Result<std::unique_ptr<KernelProcess>>> KernelProcess::Start(
    confine::LaunchContext& context, KernelPlace& place, const confine::LimitPlan& limits, KernelCommand command,
    KernelDirectory directory, bool tcp, async::TimePoint deadline, run::StopToken stop) {
  CO_TRY(jupyter::Connection connection, tcp ? jupyter::MakeTcpConnection(command.name)
                                             : jupyter::MakeIpcConnection(directory.fd, directory.path, command.name));
  CO_TRY(async::ReadySet ready, async::ReadySet::Create(context.loop));
  CO_TRY(std::string session, jupyter::MakeUuid());
  CO_TRY_VOID(WriteConnectionFile(place, directory, connection.Encode()));
  std::unique_ptr<KernelProcess> kernel(
      new KernelProcess(place, std::move(command), std::move(directory), std::move(ready)));
  kernel->client_ = std::make_unique<jupyter::Client>(
      context.loop, *context.planning, connection,
      jupyter::Client::Options{.session = std::move(session), .spill_dir = kernel->directory_.spill, .iopub = {}},
      [process = kernel.get()] { process->Wake(); });
  Status started = kernel->Exec(limits);
  if (started) started = co_await kernel->AwaitStart(deadline, stop);
  if (started) started = co_await kernel->AwaitAnswer(deadline, stop);
  if (!started) {
    co_await kernel->End();
    co_return std::unexpected(std::move(started.error()));
  }
  co_return std::move(kernel);
}

Status KernelProcess::Exec(const confine::LimitPlan& limits) {
  TRY(os::Pipe out, os::MakeOutputPipe());
  TRY(os::Pipe err, os::MakeOutputPipe());
  UniqueFd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in) return SysErr(errno, "open '/dev/null'");
  confine::ExecRequest request;
  request.argv = command_.argv;
  for (std::string& argument : request.argv) {
    TRY(argument, jupyter::Substitute(argument, "{connection_file}", connection_file_));
  }
  request.program = request.argv.front();
  request.env = command_.env;
  request.search_path = command_.search_path;
  request.cwd = command_.cwd;
  request.limits = limits.exec;
  request.kill_rest = true;
  const std::array<int, 3> stdio = {in.get(), out.write.get(), err.write.get()};
  TRY(tag_, place_.jail.Exec(request, stdio));
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  TRY_VOID(ready_.Add(out_.get(), kKeyOut));
  TRY_VOID(ready_.Add(err_.get(), kKeyErr));
  return ready_.Add(place_.jail.control_fd(), kKeyControl);
}

void KernelProcess::ReadPipe(UniqueFd& pipe) {
  std::array<char, 16384> buffer;
  const ssize_t n = os::RetryOnEintr([&] { return read(pipe.get(), buffer.data(), buffer.size()); });
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    ready_.Remove(pipe.get());
    pipe.Reset();
    return;
  }
  last_words_.append(buffer.data(), static_cast<size_t>(n));
  if (last_words_.size() > kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
}

void KernelProcess::TakeReports() {
  place_.jail.TakeReports();
  if (auto end = place_.jail.TakeEnd(tag_)) wait_status_ = end->wait_status;
  if (place_.jail.gone()) ready_.Remove(place_.jail.control_fd());
}

async::Task<void> KernelProcess::Wait(async::TimePoint until) {
  ready_.SetDeadline(until);
  const auto keys = co_await ready_.Wait();
  for (int key : keys) {
    switch (key) {
      case kKeyOut: ReadPipe(out_); break;
      case kKeyErr: ReadPipe(err_); break;
      case kKeyControl: TakeReports(); break;
      default: break;
    }
  }
}

// The reason is in its last words, which may still be in the pipe.
Error KernelProcess::Died(std::string_view when) const {
  std::string words = last_words_;
  std::array<char, 16384> buffer;
  for (const UniqueFd* pipe : {&out_, &err_}) {
    if (!*pipe) continue;
    const ssize_t n = os::RetryOnEintr([&] { return read(pipe->get(), buffer.data(), buffer.size()); });
    if (n > 0) words.append(buffer.data(), static_cast<size_t>(n));
  }
  if (words.size() > kLastWords) words.erase(0, words.size() - kLastWords);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  const std::string how = wait_status_ ? DescribeEnd(*wait_status_) : "from outside";
  const std::string said = words.empty() ? "" : ": " + StripAnsi(ToUtf8Lossy(words));
  return {ErrorCode::kUnsupported, fmt::format("kernel '{}' ended {} {}{}", command_.name, how, when, said), 0};
}

// Until init has started the program, or could not.
async::Task<Status> KernelProcess::AwaitStart(async::TimePoint deadline, run::StopToken stop) {
  for (;;) {
    if (auto start = place_.jail.TakeStart(tag_)) {
      if (!*start) {
        co_return std::unexpected(
            std::move(start->error()).WithContext(fmt::format("kernel '{}': '{}'", command_.name, command_.argv[0])));
      }
      group_ = **start;
      co_return Status{};
    }
    if (place_.jail.gone()) co_return Err(ErrorCode::kInternal, "the launcher ended before the kernel began");
    if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
    const async::TimePoint now = async::Clock::now();
    if (now >= deadline) co_return Err(ErrorCode::kUnsupported, "kernel '{}' did not start in time", command_.name);
    co_await Wait(std::min(deadline, now + kStopPoll));
  }
}

// A kernel is ready when it answers on shell and its iopub messages reach us: one that it sent before the subscription
// arrived is lost.
async::Task<Status> KernelProcess::AwaitAnswer(async::TimePoint deadline, run::StopToken stop) {
  client_->Start();
  std::string asked;
  bool answered = false;
  async::TimePoint ask_again = async::TimePoint::max();
  for (;;) {
    if (ended()) co_return std::unexpected(Died("before it answered"));
    if (client_->refused()) {
      co_return std::unexpected(Error(*client_->refused()).WithContext(fmt::format("kernel '{}'", command_.name)));
    }
    while (auto reply = co_await client_->Take(Channel::kShell)) {
      if (reply->type != "kernel_info_reply") continue;
      answered = true;
      ask_again = async::Clock::now() + kIopubPatience;
      const auto content = jupyter::ParseObject(reply->content);
      if (!content) continue;
      info_.language = jupyter::Text(jupyter::Object(*content, "language_info"), "name");
      info_.implementation = jupyter::Text(*content, "implementation");
    }
    bool heard = false;
    while (co_await client_->Take(Channel::kIopub)) heard = true;
    if (answered && heard) break;
    const async::TimePoint now = async::Clock::now();
    if (client_->connected() && (asked.empty() || now >= ask_again)) {
      CO_TRY(asked, client_->Ask(Channel::kShell, "kernel_info_request", "{}"));
      ask_again = async::TimePoint::max();
    }
    if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
    if (now >= deadline) {
      const std::string said = last_words_.empty() ? "" : "; it wrote: " + StripAnsi(ToUtf8Lossy(last_words_));
      co_return Err(ErrorCode::kUnsupported, "kernel '{}' did not answer in time{}", command_.name, said);
    }
    co_await Wait(std::min({deadline, ask_again, now + kStopPoll}));
  }
  co_return Status{};
}

async::Task<Result<jupyter::Message>> KernelProcess::Query(Channel channel, std::string_view type, std::string content,
                                                           async::TimePoint deadline) {
  if (ended()) co_return std::unexpected(Died("before it was asked"));
  CO_TRY(const std::string id, client_->Ask(channel, type, std::move(content)));
  for (;;) {
    while (auto reply = co_await client_->Take(channel)) {
      if (reply->parent_id == id) co_return std::move(*reply);
    }
    if (ended()) co_return std::unexpected(Died(fmt::format("instead of answering {}", type)));
    if (async::Clock::now() >= deadline) {
      co_return Err(ErrorCode::kUnsupported, "kernel '{}' did not answer {} in time", command_.name, type);
    }
    co_await Wait(deadline);
  }
}

void KernelProcess::Interrupt() {
  if (command_.interrupt_mode == jupyter::InterruptMode::kMessage) {
    (void)client_->Ask(Channel::kControl, "interrupt_request", "{}");
  } else {
    place_.jail.Signal(SIGINT, group_);
  }
}

async::Task<void> KernelProcess::AwaitInterrupt(async::TimePoint deadline) {
  const uint32_t echo = place_.jail.AskForEcho();
  while (!place_.jail.WasEchoed(echo) && !ended() && async::Clock::now() < deadline) co_await Wait(deadline);
  // The signal was sent; what it does to the kernel happens before the kernel answers the next request.
  (void)co_await Query(Channel::kShell, "kernel_info_request", "{}", deadline);
}

async::Task<void> KernelProcess::AwaitExit(async::TimePoint deadline) {
  // IRkernel leaves this request to its client.
  if (!ended()) (void)client_->Ask(Channel::kControl, "shutdown_request", R"({"restart": false})");
  while (!ended() && async::Clock::now() < deadline) co_await Wait(deadline);
  if (ended()) co_return;
  Kill();
  const async::TimePoint last = async::Clock::now() + run::kKillPatience;
  while (!ended() && async::Clock::now() < last) co_await Wait(last);
}

async::Task<void> KernelProcess::End() {
  co_await client_->Stop();
  if (place_.is_jail() && tag_ != 0) {
    // The jail stays, for the files of the session.
    place_.jail.KillGuest();
    const async::TimePoint last = async::Clock::now() + run::kKillPatience;
    while (!ended() && async::Clock::now() < last) co_await Wait(last);
    if (!ended()) place_.jail.KillInit();
  }
  ready_.Remove(place_.jail.control_fd());
  if (out_) ready_.Remove(out_.get());
  if (err_) ready_.Remove(err_.get());
}

}  // namespace cella::executor
