// One run, with the terminal listened to while it is on.
#include "cli/repl/interactive.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;

// Within it a second Ctrl-C ends the run for good.
constexpr auto kInsistence = 2s;

}  // namespace

async::Task<void> Interactive::AwaitEnd() {
  (void)co_await run_->Ended();
  mailbox_.Post(RunEnded{});
}

async::Task<void> Interactive::RunCell(std::string language, std::string code) {
  RunSpec spec;
  spec.blocks = {{std::move(language), std::move(code)}};
  spec.answers_input = true;
  auto submitted = session_.Submit(std::move(spec), &view_);
  if (!submitted) {
    co_await view_.Complain(submitted.error().message);
    if (submitted.error().code == ErrorCode::kClosed) status_ = 1;
    co_return;
  }
  run_ = std::move(*submitted);
  async::TaskGroup run(loop_);
  run.Add(AwaitEnd());

  std::vector<Message> typed_ahead;
  std::optional<async::TimePoint> interrupted;
  for (bool running = true; running;) {
    Message message = co_await mailbox_.Take();
    if (auto* key = std::get_if<Key>(&message)) {
      if (key->code == KeyCode::kInterrupt) {
        typed_ahead.clear();
        co_await Print("^C\n");
        const async::TimePoint now = async::Clock::now();
        const bool insists = interrupted && now - *interrupted < kInsistence;
        (void)run_->Stop(insists ? StopReason::kCancel : StopReason::kInterrupt);
        interrupted = now;
      } else if (key->code == KeyCode::kSuspend) {
        terminal_->Suspend();
      } else if (typed_ahead.size() < kMaxTypedAhead) {
        typed_ahead.push_back(std::move(message));
      }
    } else if (auto* wanted = std::get_if<InputWanted>(&message)) {
      // What was typed ahead is the answer, as it would be at any other program's.
      mailbox_.PutBack(std::exchange(typed_ahead, {}));
      running = co_await AnswerInput(std::move(*wanted));
    } else if (std::holds_alternative<TerminalChanged>(message)) {
      terminal_->EnterRawMode();
    } else if (std::holds_alternative<RunEnded>(message)) {
      running = false;
    } else {
      Leave(message);
      (void)run_->Stop(StopReason::kCancel);
    }
  }
  co_await run.Join();
  mailbox_.PutBack(std::move(typed_ahead));
  co_await view_.EndLine();
  const RunResult& result = run_->result();
  if (result.state == StateAfter::kLost || result.outcome.status == RunStatus::kRejected) co_await AskWhetherItEnded();
}

// A jail that is gone answers nothing any more.
async::Task<void> Interactive::AskWhetherItEnded() {
  auto answer = co_await session_.Ask("python", CodeQuestion::kIsComplete, "", 0);
  if (!answer && answer.error().code == ErrorCode::kClosed) status_ = 1;
}

// True while the run is still on.
async::Task<bool> Interactive::AnswerInput(InputWanted wanted) {
  using Request = LineEditor::Request;
  // All but the last line of the prompt is plain output.
  size_t newline = wanted.prompt.rfind('\n');
  if (newline != std::string::npos) {
    Event above = OutputEvent{Stream::kStdout, wanted.prompt.substr(0, newline + 1)};
    (void)co_await view_.Emit(std::move(above));
    wanted.prompt.erase(0, newline + 1);
  }
  std::string prompt = view_.TakeUnfinishedLine();
  co_await view_.EndLine();
  prompt += PlainText(wanted.prompt);
  LineEditor editor(nullptr);
  const LineEditor nothing(nullptr);
  screen_.Forget();
  for (;;) {
    if (mailbox_.empty()) co_await Draw(wanted.password ? nothing : editor, prompt);
    Message message = co_await mailbox_.Take();
    Request request = Request::kNone;
    if (auto* key = std::get_if<Key>(&message)) {
      // There is but one line.
      if (key->code == KeyCode::kTab) *key = {KeyCode::kText, "\t"};
      if (key->code == KeyCode::kNewline) key->code = KeyCode::kEnter;
      request = editor.Handle(*key);
    } else if (std::holds_alternative<TerminalChanged>(message)) {
      terminal_->EnterRawMode();
    } else if (!std::holds_alternative<InputWanted>(message)) {
      std::string bytes = screen_.Leave();
      co_await Print(bytes);
      if (std::holds_alternative<RunEnded>(message)) co_return false;
      Leave(message);
      (void)run_->Stop(StopReason::kCancel);
      co_return true;
    }
    if (request == Request::kNone || request == Request::kComplete) continue;
    if (request == Request::kClearScreen) {
      screen_.Forget();
      co_await Print("\x1B[H\x1B[2J");
      continue;
    }
    if (request != Request::kInterrupt) co_await Draw(wanted.password ? nothing : editor, prompt);
    std::string bytes = (request == Request::kInterrupt ? "^C" : "") + screen_.Leave();
    co_await Print(bytes);
    if (request == Request::kSuspend) {
      terminal_->Suspend();
      continue;
    }
    if (request == Request::kInterrupt) {
      (void)run_->Stop(StopReason::kInterrupt);
      co_return true;
    }
    std::optional<std::string> answer;
    if (request == Request::kEnter) answer = editor.buffer().text();
    // A run that ended meanwhile needs no answer, and its end is in the mailbox.
    (void)run_->Reply(std::move(answer));
    co_return true;
  }
}

}  // namespace cella::cli
