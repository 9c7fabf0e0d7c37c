// The part of a session that starts, addresses and ends its runners.
#include <fcntl.h>

#include <array>

#include "async/deadline.h"
#include "executor/sandbox/sandbox_session.h"
#include "os/pidfd.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;

// For a runner that answers questions or takes a checkpoint, and for init; code does not run meanwhile.
constexpr auto kAnswerPatience = 10s;
constexpr auto kEndingPatience = 250ms;
constexpr uint64_t kValueLimit = uint64_t{1} << 20;

Result<UniqueFd> OpenNull() {
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return SysErr(errno, "open '/dev/null'");
  return null;
}

}  // namespace

Error SandboxSession::JailEnded() {
  return Error{ErrorCode::kClosed, "the session's jail has ended and its state is lost: open a new session", 0};
}

async::Task<Status> SandboxSession::EnsureRunner(const std::string& language) {
  lost_ = lost_ || shell_->launch.ended();
  if (lost_) co_return std::unexpected(JailEnded());
  if (runners_[language]) co_return Status{};
  Result<Runner> runner = Err(ErrorCode::kInternal, "no runner");
  if (language == "python" && warm_->forks()) {
    runner = co_await ForkRunner();
  } else {
    runner = co_await ExecRunner(language);
  }
  if (!runner) {
    bool ending = co_await JailIsEnding();
    co_return std::unexpected(ending ? JailEnded() : std::move(runner.error()));
  }
  runners_[language] = std::move(*runner);
  // What the zygote has already need not be said: a newborn that is told nothing touches less memory.
  const bool network = request_.policy.network == Network::kHost;
  if (runners_[language].zygote && !network && env_ == warm_->environment().variables()) co_return Status{};
  language::RunnerConfiguration configuration;
  configuration.env = env_;
  configuration.cwd = kCwd;
  configuration.network = network;
  configuration.value_limit = kValueLimit;
  auto payload = language::EncodeConfigure(configuration);
  auto sent = co_await runners_[language].channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  co_return sent;
}

// A jail that is killed goes in no particular order, and what is asked of it meanwhile fails in ways of all kinds.
async::Task<bool> SandboxSession::JailIsEnding() {
  const async::TimePoint patience = async::Clock::now() + kEndingPatience;
  for (;;) {
    lost_ = lost_ || shell_->launch.ended() || !warm_->alive();
    if (lost_ || async::Clock::now() >= patience) co_return lost_;
    bool slept = co_await async::SleepUntil(async::Clock::now() + 5ms);
    if (!slept) co_return lost_;
  }
}

async::Task<Status> SandboxSession::OpenEntry() {
  if (!shell_->ready.entry.empty()) co_return Status{};
  CO_TRY_VOID(shell_->cgroup.OpenDoors());
  shell_->launch.AskForEntry();
  auto lent = co_await AwaitReport(jail::ReportKind::kLent);
  if (!lent) co_return std::unexpected(std::move(lent.error()));
  shell_->ready.entry = std::move(lent->fds);
  co_return Status{};
}

async::Task<Result<Runner>> SandboxSession::ForkRunner() {
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(UniqueFd null, OpenNull());
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  if (shell_->launch.ended()) {
    lost_ = true;
    co_return std::unexpected(JailEnded());
  }
  auto opened = co_await OpenEntry();
  Result<WarmEnvironment::Newborn> newborn = Err(ErrorCode::kInternal, "no fork");
  if (opened) newborn = co_await warm_->Fork(*shell_, limit_plan_, stdio, sockets.theirs.get());
  shell_->CloseEntry();
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  if (!newborn) co_return std::unexpected(std::move(newborn.error()));
  Runner runner;
  CO_TRY(runner.channel, language::RunnerChannel::Open(std::move(sockets.ours)));
  runner.pidfd = std::move(newborn->process.pidfd);
  // While it lives: later nobody could tell what belonged to it.
  if (auto pids = os::NamespacePids(runner.pidfd.get())) runner.group = pids->back();
  runner.tag = newborn->process.tag;
  runner.zygote = std::move(newborn->zygote);
  co_return std::move(runner);
}

async::Task<Result<Runner>> SandboxSession::ExecRunner(const std::string& language) {
  auto interpreter = warm_->plan().interpreters.find(language);
  if (interpreter == warm_->plan().interpreters.end()) {
    auto plan = PlanLanguage(context_, request_.policy, {language, ""});
    if (!plan) co_return std::unexpected(std::move(plan.error()));
    co_return Err(ErrorCode::kUnsupported, "'{}' was not there when the session began: open a new one", language);
  }
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(UniqueFd null, OpenNull());
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  ExecRequest request;
  request.argv = interpreter->second.argv;
  for (const auto& [name, value] : env_) request.env.push_back(fmt::format("{}={}", name, value));
  request.search_path = search_path_;
  request.cwd = kCwd;
  request.limits = limit_plan_.exec;
  request.kill_rest = false;
  std::vector<std::string> names = interpreter->second.plan.commands.front().candidates;
  if (names.empty()) names.push_back(request.argv.front());
  Runner runner;
  CO_TRY(runner.channel, language::RunnerChannel::Open(std::move(sockets.ours)));
  Result<Launch::Received> received = Err(ErrorCode::kNotFound, "no interpreter");
  for (const std::string& name : names) {
    request.program = request.argv.front() = name;
    auto asked = shell_->launch.Exec(request, stdio, sockets.theirs.get());
    if (!asked) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    runner.tag = *asked;
    received = co_await AwaitReport(jail::ReportKind::kStarted, runner.tag);
    if (received || received.error().code != ErrorCode::kNotFound) break;
  }
  if (!received) co_return std::unexpected(std::move(received.error()));
  runner.group = received->report->pid;
  co_return std::move(runner);
}

void SandboxSession::Watch(Runner* runner) {
  if (runner == watched_) return;
  if (watched_ != nullptr && *watched_) {
    ready_.Remove(watched_->channel.fd());
    if (watched_->pidfd) ready_.Remove(watched_->pidfd.get());
  }
  watched_ = runner;
  if (runner == nullptr) return;
  (void)ready_.Add(runner->channel.fd(), kKeyChannel);
  if (runner->pidfd) (void)ready_.Add(runner->pidfd.get(), kKeyProcess);
}

void SandboxSession::Discard(Runner* runner) {
  if (watched_ == runner) Watch(nullptr);
  // Its socket closes, which a well-behaved one takes as its end. The others are killed, by init: a descriptor that
  // came from a guest is nothing to send signals through.
  if (runner->group == 0 && runner->pidfd) {
    auto pids = os::NamespacePids(runner->pidfd.get());
    if (pids) runner->group = pids->back();
  }
  if (runner->group > 1) shell_->launch.KillGuest(runner->group);
  *runner = Runner{};
}

async::Task<Result<std::string>> SandboxSession::Ask(const std::string& language, language::Question question,
                                                     std::string code, size_t cursor) {
  const language::Language* found = context_.table.Find(language);
  if (found == nullptr || !warm_->plan().interpreters.contains(found->name)) {
    co_return Err(ErrorCode::kUnsupported, "'{}' keeps no state and knows no names", language);
  }
  co_await StopSettling();
  auto ensured = co_await EnsureRunner(found->name);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  auto answer =
      co_await Exchange(runners_[found->name], language::EncodeQuestion(question, code, cursor), std::nullopt);
  co_return answer;
}

async::Task<Result<std::string>> SandboxSession::Exchange(Runner& runner, std::string payload,
                                                          std::optional<std::string> checkpoint_name) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  auto sent = co_await runner.channel.Send(context_.loop, payload, deadline);
  if (!sent) co_return std::unexpected(std::move(sent.error()));
  Watch(&runner);
  ready_.SetDeadline(deadline);
  while (async::Clock::now() < deadline) {
    auto arrival = runner.channel.Receive();
    if (!arrival) co_return std::unexpected(std::move(arrival.error()));
    while (auto next = runner.channel.Next()) {
      auto frame = language::DecodeFrame(*next);
      if (!frame) co_return std::unexpected(std::move(frame.error()));
      auto* answer = std::get_if<language::AnswerFrame>(&*frame);
      if (answer != nullptr && !checkpoint_name) co_return std::move(answer->json);
      if (auto* checkpoint = std::get_if<language::CheckpointFrame>(&*frame)) {
        CellRun::TakeCheckpoint(parts_, runner, *checkpoint);
        // One that an earlier run left behind may come first.
        if (checkpoint_name == checkpoint->name) co_return checkpoint->status;
      }
    }
    if (*arrival == language::RunnerChannel::Arrival::kClosed) {
      co_return Err(ErrorCode::kClosed, "the interpreter has ended");
    }
    if (*arrival == language::RunnerChannel::Arrival::kSome) continue;
    // Output of background threads is not for us; it waits for the next run.
    ready_.Remove(parts_.out);
    ready_.Remove(parts_.err);
    auto keys = co_await ready_.Wait();
    (void)ready_.Add(parts_.out, kKeyOut);
    (void)ready_.Add(parts_.err, kKeyErr);
    for (int key : keys) {
      if (key == kKeyProcess) co_return Err(ErrorCode::kClosed, "the interpreter has ended");
      if (key != kKeyControl) continue;
      auto received = shell_->launch.Receive();
      if (!received || received->gone) {
        lost_ = true;
        co_return std::unexpected(JailEnded());
      }
      if (received->report && received->report->kind == jail::ReportKind::kExited) {
        shell_->launch.KeepEnd(*received->report);
        if (!runner.zygote && received->report->tag == runner.tag) {
          co_return Err(ErrorCode::kClosed, "the interpreter has ended");
        }
      }
    }
  }
  co_return Err(ErrorCode::kClosed, "the interpreter does not answer");
}

async::Task<Status> SandboxSession::Reply(std::optional<std::string> text) {
  auto pass = co_await replying_.Enter();
  if (running_ == nullptr || watched_ == nullptr) co_return Err(ErrorCode::kInvalid, "nothing waits for input");
  running_->BeforeReply();
  auto payload = language::EncodeInputReply(text);
  auto sent = co_await watched_->channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  co_return sent;
}

// Returns when init has done it, so that what is started next is spared.
async::Task<Status> SandboxSession::KillEverybody() {
  shell_->launch.KillGuest();
  auto killed = co_await AwaitReport(jail::ReportKind::kKilled);
  if (!killed) co_return std::unexpected(std::move(killed.error()));
  co_return Status{};
}

async::Task<Result<Launch::Received>> SandboxSession::AwaitReport(jail::ReportKind kind, uint32_t tag) {
  for (;;) {
    bool heard = co_await HearInit();
    if (!heard) co_return std::unexpected(JailEnded());
    auto received = shell_->launch.Receive();
    if (!received) co_return std::unexpected(std::move(received.error()));
    if (received->gone) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    if (!received->report) continue;
    if (received->report->kind == jail::ReportKind::kExited) shell_->launch.KeepEnd(*received->report);
    if (received->report->kind == kind && received->report->tag == tag) co_return std::move(*received);
  }
}

// Init answers at once, or something holds it: then the jail is of no more use.
async::Task<bool> SandboxSession::HearInit() {
  auto readable = co_await async::WithDeadline(shell_->launch.Readable(), async::Clock::now() + kAnswerPatience);
  if (readable && *readable) co_return true;
  shell_->launch.KillInit();
  lost_ = true;
  co_return false;
}

}  // namespace cella::executor
