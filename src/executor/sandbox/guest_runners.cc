// The part of a session that starts, addresses and ends its runners.
#include <fcntl.h>

#include <array>

#include "async/deadline.h"
#include "executor/sandbox/sandbox_guest.h"

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

Error SandboxGuest::JailEnded() {
  return Error{ErrorCode::kClosed, "the session's jail has ended and its state is lost: open a new session", 0};
}

async::Task<Status> SandboxGuest::EnsureRunner(const std::string& language) {
  lost_ = lost_ || jail_->jail.ended();
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
  const bool network = spec_.policy.network == Network::kHost;
  if (runners_[language].zygote && !network && env_ == warm_->environment().variables()) co_return Status{};
  runner::Configuration configuration;
  configuration.env = env_;
  configuration.cwd = kCwd;
  configuration.network = network;
  configuration.value_limit = kValueLimit;
  configuration.spaces = spec_.spaces;
  configuration.assignments = spec_.policy.values_of_assignments;
  auto payload = runner::EncodeConfigure(configuration);
  auto sent = co_await runners_[language].channel.Send(context_.loop, payload, async::Clock::now() + kAnswerPatience);
  co_return sent;
}

// A jail that is killed goes in no particular order, and what is asked of it meanwhile fails in ways of all kinds.
async::Task<bool> SandboxGuest::JailIsEnding() {
  const async::TimePoint patience = async::Clock::now() + kEndingPatience;
  for (;;) {
    lost_ = lost_ || jail_->jail.ended() || !warm_->alive();
    if (lost_ || async::Clock::now() >= patience) co_return lost_;
    bool slept = co_await async::SleepUntil(async::Clock::now() + 5ms);
    if (!slept) co_return lost_;
  }
}

async::Task<Status> SandboxGuest::OpenEntry() {
  if (!jail_->ready.entry.empty()) co_return Status{};
  CO_TRY_VOID(jail_->cgroup.OpenJoinFds());
  jail_->jail.AskForEntry();
  std::optional<Result<std::vector<UniqueFd>>> lent;
  auto arrived = [&] { return (lent = jail_->jail.TakeLent()).has_value(); };
  auto awaited = co_await AwaitReport(arrived);
  if (!awaited) co_return awaited;
  if (!*lent) co_return std::unexpected(std::move(lent->error()));
  jail_->ready.entry = std::move(**lent);
  co_return Status{};
}

async::Task<Result<WarmEnvironment::Newborn>> SandboxGuest::ForkInto(std::span<const int, 3> stdio, int session) {
  if (jail_->jail.ended()) {
    lost_ = true;
    co_return std::unexpected(JailEnded());
  }
  auto opened = co_await OpenEntry();
  Result<WarmEnvironment::Newborn> newborn = Err(ErrorCode::kInternal, "no fork");
  if (opened) newborn = co_await warm_->Fork(*jail_, limit_plan_, stdio, session);
  jail_->CloseEntry();
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  co_return newborn;
}

async::Task<Result<Runner>> SandboxGuest::ForkRunner() {
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(UniqueFd null, OpenNull());
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  auto newborn = co_await ForkInto(stdio, sockets.theirs.get());
  if (!newborn) co_return std::unexpected(std::move(newborn.error()));
  Runner runner;
  CO_TRY(runner.channel, runner::Channel::Open(std::move(sockets.ours)));
  runner.pidfd = std::move(newborn->process.pidfd);
  (void)runner.Group();  // read now: it cannot be read after the runner's end
  runner.tag = newborn->process.tag;
  runner.zygote = std::move(newborn->zygote);
  co_return std::move(runner);
}

async::Task<Result<Runner>> SandboxGuest::ExecRunner(const std::string& language) {
  auto interpreter = warm_->plan().interpreters.find(language);
  if (interpreter == warm_->plan().interpreters.end()) {
    auto make_plan = [&] { return PlanLanguage(context_, spec_.policy, {language, ""}); };
    auto plan = co_await context_.planning->Run(make_plan);
    if (!plan) co_return std::unexpected(std::move(plan.error()));
    co_return Err(ErrorCode::kUnsupported, "'{}' was not there when the session began: open a new one", language);
  }
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(UniqueFd null, OpenNull());
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  confine::ExecRequest request;
  request.argv = interpreter->second.argv;
  for (const auto& [name, value] : env_) request.env.push_back(fmt::format("{}={}", name, value));
  request.search_path = search_path_;
  request.cwd = kCwd;
  request.limits = limit_plan_.exec;
  request.kill_rest = false;
  std::vector<std::string> names = interpreter->second.plan.commands.front().candidates;
  if (names.empty()) names.push_back(request.argv.front());
  Runner runner;
  CO_TRY(runner.channel, runner::Channel::Open(std::move(sockets.ours)));
  std::optional<Result<int>> started;
  for (const std::string& name : names) {
    request.program = request.argv.front() = name;
    auto asked = jail_->jail.Exec(request, stdio, sockets.theirs.get());
    if (!asked) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    runner.tag = *asked;
    auto arrived = [&] { return (started = jail_->jail.TakeStart(runner.tag)).has_value(); };
    auto awaited = co_await AwaitReport(arrived);
    if (!awaited) co_return std::unexpected(std::move(awaited.error()));
    if (*started || started->error().code != ErrorCode::kNotFound) break;
  }
  if (!*started) co_return std::unexpected(std::move(started->error()));
  runner.group = **started;
  co_return std::move(runner);
}

void SandboxGuest::Watch(Runner* runner) {
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

void SandboxGuest::Discard(Runner* runner) {
  if (watched_ == runner) Watch(nullptr);
  // A well-behaved runner ends when its socket closes. The others are killed, by init: a descriptor that came from a
  // guest is nothing to send signals through.
  if (runner->Group() > 1) jail_->jail.KillGuest(runner->group);
  *runner = Runner{};
}

async::Task<Result<std::string>> SandboxGuest::Ask(const std::string& language, CodeQuestion question, std::string code,
                                                   size_t cursor) {
  const language::Language* found = context_.table.Find(language);
  if (found == nullptr || !warm_->plan().interpreters.contains(found->name)) {
    co_return Err(ErrorCode::kUnsupported, "'{}' keeps no state and knows no names", language);
  }
  co_await StopSettling();
  auto ensured = co_await EnsureRunner(found->name);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  auto answer = co_await Exchange(runners_[found->name], runner::EncodeQuestion(question, code, cursor), std::nullopt);
  co_return answer;
}

async::Task<Result<std::string>> SandboxGuest::Exchange(Runner& runner, std::string payload,
                                                        std::optional<std::string> checkpoint_name) {
  Watch(&runner);
  auto answer = co_await AskRunner(cells_, runner, std::move(payload), kAnswerPatience, checkpoint_name);
  if (!answer && jail_->jail.gone()) {
    lost_ = true;
    co_return std::unexpected(JailEnded());
  }
  co_return answer;
}

// Returns when init has done it, so that what is started next is spared.
async::Task<Status> SandboxGuest::KillEverybody() {
  jail_->jail.KillGuest();
  auto killed = [this] { return jail_->jail.TakeKilled(); };
  auto awaited = co_await AwaitReport(killed);
  co_return awaited;
}

async::Task<Status> SandboxGuest::AwaitReport(std::function<bool()> arrived) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  while (!arrived()) {
    if (jail_->jail.gone()) {
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    auto readable = co_await async::WithDeadline(jail_->jail.Readable(), deadline);
    if (!readable || !*readable) {
      // Init answers at once, unless something holds it up: then the jail is of no more use.
      jail_->jail.KillInit();
      lost_ = true;
      co_return std::unexpected(JailEnded());
    }
    jail_->jail.TakeReports();
  }
  co_return Status{};
}

}  // namespace cella::executor
