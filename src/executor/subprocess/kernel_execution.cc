#include "executor/subprocess/kernel_execution.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <array>

#include "base/text.h"
#include "base/units.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using jupyter::Channel;
using jupyter::Json;

// Of the kernel's messages, before others on this loop have their turn.
constexpr int kMessagesPerTurn = 64;
// Parsing takes about a millisecond per 100 kB.
constexpr size_t kLargeContent = size_t{64} << 10;
// After the reply, for the idle status. Both travel on different sockets, so either may come first.
constexpr auto kIdlePatience = 500ms;
// After the request whose idle status did not come either, while nothing else comes: once it was answered, and before.
constexpr auto kSilence = 2s;
constexpr auto kLongSilence = 10s;
// After the kernel's end, for the end of its iopub stream.
constexpr auto kRestPatience = 1s;
// The kernel takes this as the end of input.
constexpr std::string_view kEndOfInput = "\x04";

}  // namespace

KernelExecution::KernelExecution(async::Loop& loop, KernelProcess& kernel, async::BlockingPool& pool,
                                 const confine::LimitPlan& limits)
    : loop_(loop), kernel_(kernel), pool_(pool), limits_(limits), used_(kernel.meter()), reading_(loop) {}

Status KernelExecution::Begin(const run::BlockTurn& turn) {
  kernel_.client().DropMessages();
  (void)kernel_.TakeBreach();
  stdin_text_ = turn.stdin_text;
  answers_input_ = turn.run.answers_input;
  if (!stdin_text_ && !answers_input_ && turn.run.stdin_fd >= 0) {
    async::Opened input = async::OpenPrivately(turn.run.stdin_fd, O_RDONLY);
    if (input.fd) stdin_.emplace(loop_, std::move(input.fd), input.sharing);
  }
  if (limits_.IsWatched()) kernel_.BeginRun();
  Json content = {{"code", ToUtf8Lossy(turn.block.code)}, {"silent", false},     {"store_history", true},
                  {"user_expressions", Json::object()},   {"allow_stdin", true}, {"stop_on_error", false}};
  TRY(request_, kernel_.client().Ask(Channel::kShell, "execute_request", jupyter::Dump(content)));
  return {};
}

async::Task<std::optional<Json>> KernelExecution::Parse(const jupyter::Message& message) {
  if (message.content.size() <= kLargeContent) co_return jupyter::ParseObject(message.content);
  auto parse = [&]() -> Result<std::optional<Json>> { return jupyter::ParseObject(message.content); };
  auto parsed = co_await pool_.Run(parse);
  if (!parsed) co_return std::nullopt;
  co_return std::move(*parsed);
}

void KernelExecution::Note(run::Output& out, std::string text) {
  out.Push(OutputEvent{Stream::kStderr, fmt::format("[cella: {}]\n", text)});
}

async::Task<void> KernelExecution::TakeOutput(run::Output& out, int at_most) {
  more_ = false;
  for (int taken = 0; !out.full(); ++taken) {
    if (taken == at_most) {
      more_ = kernel_.client().HasMessage(Channel::kIopub);
      co_return;
    }
    auto message = co_await kernel_.client().Take(Channel::kIopub);
    if (!message) break;
    heard_at_ = async::Clock::now();
    if (message->parent_id == probe_ && !probe_.empty() && message->type == "status") {
      // iopub keeps its order: what has not come before this never will.
      if (message->content.find("\"idle\"") == std::string::npos) continue;
      idle_lost_ = idle_lost_ || !idle_;
      probed_ = true;
      continue;
    }
    if (message->parent_id != request_) continue;
    started_ = true;
    if (message->skipped > 0) {
      Note(out, fmt::format("a message of {} ({}) is larger than can be read and was left out",
                            FormatByteSize(message->skipped), message->type));
      continue;
    }
    auto content = co_await Parse(*message);
    if (!content) {
      Note(out, fmt::format("a message ({}) of the kernel cannot be read and was left out", message->type));
      continue;
    }
    if (message->type == "status" && jupyter::Text(*content, "execution_state") == "idle") idle_ = true;
    auto event = ToEvent(message->type, *content);
    if (!event) continue;
    if (message->type == "clear_output" && jupyter::Flag(*content, "wait")) {
      clears_next_ = true;
      continue;
    }
    if (std::exchange(clears_next_, false) && message->type != "clear_output") {
      out.Push(DisplayEvent{{}, "", false, true});
    }
    if (auto* error = std::get_if<ErrorEvent>(&*event)) {
      if (error->error.name == "SystemExit") continue;
      error_ = error->error;
    }
    showed_ = showed_ || !std::holds_alternative<OutputEvent>(*event);
    out.Push(std::move(*event));
  }
  if (const uint64_t dropped = kernel_.client().TakeDropped(); dropped > 0) {
    Note(out, fmt::format("{} messages of the kernel were dropped: it sent them faster than they were read", dropped));
  }
}

async::Task<void> KernelExecution::TakeReply(run::Output& out) {
  while (auto message = co_await kernel_.client().Take(Channel::kShell)) {
    probe_answered_ = probe_answered_ || (!probe_.empty() && message->parent_id == probe_);
    if (message->parent_id != request_ || message->type != "execute_reply" || reply_) continue;
    auto content = co_await Parse(*message);
    reply_ = content ? ToAnswer(*content) : ToAnswer(Json{{"status", "a reply that cannot be read"}});
    probe_at_ = async::Clock::now() + kIdlePatience;
    if (!reply_->pager.empty()) {
      DisplayEvent help;
      help.bundle.data.emplace_back("text/plain", reply_->pager);
      out.Push(std::move(help));
    }
  }
}

std::optional<std::string> KernelExecution::NextLine() {
  if (!stdin_text_ || stdin_at_ >= stdin_text_->size()) return std::nullopt;
  const size_t end = std::min(stdin_text_->find('\n', stdin_at_), stdin_text_->size());
  std::string line = stdin_text_->substr(stdin_at_, end - stdin_at_);
  stdin_at_ = end + 1;
  return line;
}

void KernelExecution::AnswerInput(std::optional<std::string> line) {
  if (!question_) return;
  // Only Python kernels know a mark for the end of input.
  const bool python = kernel_.info().language == "python";
  std::string value = line ? ToUtf8Lossy(*line) : python ? std::string(kEndOfInput) : "";
  (void)kernel_.client().Answer("input_reply", jupyter::Dump({{"value", std::move(value)}}), *question_);
  question_.reset();
}

async::Task<void> KernelExecution::TakeQuestion(run::Output& out) {
  while (auto message = co_await kernel_.client().Take(Channel::kStdin)) {
    if (message->type != "input_request" || message->parent_id != request_ || question_) continue;
    auto content = co_await Parse(*message);
    if (!content) continue;
    const std::string prompt = jupyter::Text(*content, "prompt");
    question_ = std::move(*message);
    if (!stdin_text_ && answers_input_) {
      // What was printed before the question is on its way on iopub.
      co_await TakeOutput(out, kMessagesPerTurn);
      out.Push(InputRequestEvent{prompt, jupyter::Flag(*content, "password")});
      out.Call({++calls_, "input", "line", ""});
      continue;
    }
    co_await TakeOutput(out, kMessagesPerTurn);
    if (!prompt.empty()) out.Push(OutputEvent{Stream::kStdout, prompt});
    if (stdin_) {
      reading_.Add(AnswerFromFile());
    } else {
      AnswerInput(NextLine());
    }
  }
}

async::Task<void> KernelExecution::AnswerFromFile() {
  constexpr size_t kLongestLine = size_t{1} << 20;
  std::array<char, 4096> buffer;
  size_t end = 0;
  while ((end = stdin_rest_.find('\n')) == std::string::npos && stdin_rest_.size() < kLongestLine) {
    auto n = co_await stdin_->ReadSome(buffer);
    if (!n || *n == 0) break;
    stdin_rest_.append(buffer.data(), *n);
  }
  const bool at_end = stdin_rest_.empty();
  end = std::min(end, stdin_rest_.size());
  std::string line = stdin_rest_.substr(0, end);
  stdin_rest_.erase(0, end + 1);
  AnswerInput(at_end ? std::nullopt : std::optional(std::move(line)));
}

void KernelExecution::Answer(run::HostReply reply) { AnswerInput(std::move(reply.value)); }

// Deno's kernel sends the value from another task than the idle status: one in ten comes after it, but before the
// answer to a later request.
bool KernelExecution::MayOweValue() const {
  return !showed_ && reply_ && !reply_->error && kernel_.info().implementation != "ipython";
}

// The reply came and no idle status: its loss must be told from its delay. Or the value may still come.
void KernelExecution::Probe() {
  if (!reply_ || (idle_ && !MayOweValue()) || probed_) return;
  const async::TimePoint now = async::Clock::now();
  if (probe_.empty()) {
    if (!idle_ && now < probe_at_) return;
    heard_at_ = now;
    probe_at_ = now + kIdlePatience;
    if (auto asked = kernel_.client().Ask(Channel::kShell, "kernel_info_request", "{}")) probe_ = std::move(*asked);
    return;
  }
  if (now < probe_at_) return;
  // The idle status of the later request may be lost as well.
  const bool is_silent = now >= heard_at_ + (probe_answered_ ? kSilence : kLongSilence);
  if (!idle_ && (!is_silent || kernel_.client().HasMessage(Channel::kIopub))) {
    probe_at_ = now + kIdlePatience;
    return;
  }
  idle_lost_ = idle_lost_ || !idle_;
  probed_ = true;
}

// The kernel has ended, and what it sent before has been handed on.
bool KernelExecution::HasEnded() {
  if (!kernel_.ended()) return false;
  const async::TimePoint now = async::Clock::now();
  if (ended_by_ == async::TimePoint::max()) ended_by_ = now + kRestPatience;
  if (kernel_.client().HasMessage(Channel::kIopub)) return false;
  return !kernel_.client().listens() || now >= ended_by_;
}

async::Task<run::Progress> KernelExecution::Advance(async::TimePoint until, run::Output& out) {
  co_await TakeOutput(out, kMessagesPerTurn);
  co_await TakeQuestion(out);
  co_await TakeReply(out);
  Probe();
  const auto& refused = kernel_.client().refused();
  if (refused && !kernel_.ended() && !std::exchange(refused_, true)) {
    // Without its sockets the kernel can neither answer nor be asked.
    Note(out, fmt::format("the kernel is ended: {}", refused->message));
    kernel_.Kill();
  }
  if (IsDone()) co_return run::Progress::kAnswered;
  if (HasEnded()) co_return run::Progress::kGone;
  if (more_) {
    co_await async::Yield();
  } else {
    async::TimePoint due = until;
    if (reply_ && !out.full()) due = std::min(due, probe_at_);
    if (kernel_.ended() && !kernel_.client().HasMessage(Channel::kIopub)) due = std::min(due, ended_by_);
    co_await kernel_.Wait(due);
  }
  if (auto breach = kernel_.TakeBreach(); breach != jail::KillReason::kNone) breach_ = breach;
  if (breach_ != jail::KillReason::kNone && !std::exchange(breach_told_, true)) co_return run::Progress::kKilledHere;
  if (started_ && !std::exchange(started_told_, true)) co_return run::Progress::kStarted;
  co_return run::Progress::kNothing;
}

void KernelExecution::Send(run::StopStep step) {
  switch (step) {
    case run::StopStep::kInterrupt:
    case run::StopStep::kNudge:
      if (step == run::StopStep::kInterrupt || !interrupted_) kernel_.Interrupt();
      interrupted_ = true;
      break;
    case run::StopStep::kKill:
      killed_ = true;
      kernel_.Kill();
      break;
    case run::StopStep::kDestroy: kernel_.Destroy(); break;
    case run::StopStep::kNone:
    case run::StopStep::kGiveUp: break;
  }
}

std::optional<std::chrono::nanoseconds> KernelExecution::CpuUsed() const {
  if (!limits_.cpu_time_by_cgroup) return std::nullopt;
  return used_.Cpu();
}

async::Task<Result<run::RunFacts>> KernelExecution::Finish(run::Output& out) {
  reading_.Cancel();
  co_await reading_.Join();
  // What the code sent before it ended has arrived or is in the store.
  while (kernel_.client().HasMessage(Channel::kIopub) && !out.full()) co_await TakeOutput(out, kMessagesPerTurn);
  if (idle_lost_) Note(out, "the kernel dropped a part of this run's output, because it was not read fast enough");
  if (interrupted_ && reply_ && !kernel_.ended()) {
    co_await kernel_.AwaitInterrupt(async::Clock::now() + run::kKillPatience);
  }
  if (reply_ && reply_->kernel_exits) co_await kernel_.AwaitExit(async::Clock::now() + run::kKillPatience);
  if (limits_.IsWatched() && !kernel_.place_gone()) kernel_.EndRun();
  run::RunFacts facts;
  if (reply_) {
    facts.answer = reply_->answer;
    if (!reply_->message.empty()) out.Push(OutputEvent{Stream::kStderr, reply_->message});
    if (reply_->error) facts.error = error_ ? error_ : reply_->error;
    if (reply_->error && !error_) out.Push(ErrorEvent{*reply_->error});
  } else {
    facts.wait_status = kernel_.wait_status();
    facts.owes_answer = true;
    facts.place_gone = kernel_.place_gone() && !kernel_.wait_status();
    if (facts.wait_status && WIFSIGNALED(*facts.wait_status)) {
      const int signal = WTERMSIG(*facts.wait_status);
      facts.error = RunError{"KernelDied", fmt::format("the kernel ended by signal {} ({})", signal, strsignal(signal)),
                             ToUtf8Lossy(kernel_.last_words())};
    }
  }
  facts.killed_for = confine::ToStopReason(breach_);
  used_.AddTo(&facts);
  co_return facts;
}

}  // namespace cella::executor
