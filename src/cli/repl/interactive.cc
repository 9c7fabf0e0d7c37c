#include "cli/repl/interactive.h"

#include <nlohmann/json.hpp>

#include "async/signals.h"
#include "base/units.h"
#include "cli/repl/completion.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;

// How soon the end of a session, or of a stop by job control, is noticed.
constexpr auto kWatchInterval = 200ms;

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\n") == std::string_view::npos; }

// Its last line is blank, and there are others.
bool EndsInBlankLine(std::string_view text) {
  size_t newline = text.rfind('\n');
  return newline != std::string_view::npos && IsBlank(text.substr(newline));
}

bool LeavesByName(std::string_view entry, std::string_view language) {
  if (entry == "exit" || entry == "quit") return language == "python" || language == "javascript" || entry == "exit";
  return language == "python" && (entry == "exit()" || entry == "quit()");
}

}  // namespace

Interactive::Interactive(async::Loop& loop, session::Session& session, const language::LanguageTable& table,
                         const Policy& policy, InteractiveOptions options)
    : loop_(loop),
      session_(session),
      table_(table),
      policy_(policy),
      options_(std::move(options)),
      language_(options_.language),
      mailbox_(loop),
      view_(loop, options_.images, &mailbox_),
      watchers_(loop) {}

async::Task<int> Interactive::Run() {
  auto terminal = Terminal::Open(loop_);
  if (!terminal) {
    co_await view_.Complain(terminal.error().message);
    co_return kExitRejected;
  }
  terminal_ = std::move(*terminal);
  watchers_.Add(terminal_->ReadKeys(mailbox_));
  watchers_.Add(Watch());
  watchers_.Add(AwaitStopSignal());
  co_await Converse();
  watchers_.Cancel();
  co_await watchers_.Join();
  terminal_.reset();
  co_return status_.value_or(0);
}

async::Task<void> Interactive::Watch() {
  for (;;) {
    bool slept = co_await async::SleepUntil(async::Clock::now() + kWatchInterval);
    if (!slept) co_return;
    if (terminal_->WasChanged()) mailbox_.Post(TerminalChanged{});
    if (!session_.is_open()) break;
  }
  mailbox_.Post(SessionEnded{});
}

async::Task<void> Interactive::AwaitStopSignal() {
  async::StopSignals stop(loop_);
  auto signal = co_await stop.Wait();
  if (signal) mailbox_.Post(StopSignal{});
}

async::Task<void> Interactive::Print(std::string_view text) { (void)co_await terminal_->Write(text); }

void Interactive::Leave(const Message& reason) {
  if (status_) return;
  status_ = std::holds_alternative<SessionEnded>(reason) ? 1
            : std::holds_alternative<StopSignal>(reason) ? kExitCancelled
                                                         : 0;
}

async::Task<void> Interactive::Converse() {
  std::string greeting = fmt::format("cella {}: {} in a session ({}). :help tells more, Ctrl-D leaves.\n",
                                     CELLA_VERSION, language_, session_.isolation().executor);
  co_await Print(greeting);
  if (!options_.history.empty()) {
    auto opened = history_.Open(options_.history);
    if (!opened) {
      std::string note = fmt::format("[history is not kept: {}]", opened.error().message);
      co_await view_.Complain(note);
    }
  }
  while (!status_) {
    auto entry = co_await ReadEntry();
    if (!entry) {
      if (!status_) status_ = 0;
      break;
    }
    if (IsBlank(*entry)) continue;
    history_.Add(*entry);
    if (LeavesByName(*entry, language_)) break;
    auto command = ParseColonCommand(*entry);
    if (command) {
      co_await Obey(std::move(*command));
    } else {
      co_await RunCell(language_, std::move(*entry));
    }
  }
  if (status_ != 1) co_return;
  // Any question to a session that has ended is refused with the reason of its end.
  auto answer = co_await session_.Ask("python", CodeQuestion::kIsComplete, "", 0);
  if (!answer) co_await view_.Complain(answer.error().message);
}

async::Task<void> Interactive::Draw(const LineEditor& editor, std::string prompt) {
  std::string continuation(prompt.size() < 4 ? 0 : prompt.size() - 4, ' ');
  continuation += "... ";
  if (auto search = editor.search_prompt()) prompt = *search;
  Drawing drawing{prompt, continuation, editor.buffer().text(), editor.buffer().cursor()};
  std::string bytes = screen_.Draw(drawing, terminal_->size());
  co_await Print(bytes);
}

// Nothing: the user leaves.
async::Task<std::optional<std::string>> Interactive::ReadEntry() {
  using Request = LineEditor::Request;
  const std::string prompt = language_ == "python" ? ">>> " : language_ + "> ";
  LineEditor editor(&history_);
  screen_.Forget();
  co_await Draw(editor, prompt);
  for (;;) {
    Message message = co_await mailbox_.Take();
    Request request = Request::kNone;
    if (auto* key = std::get_if<Key>(&message)) {
      request = editor.Handle(*key);
    } else if (std::holds_alternative<TerminalChanged>(message)) {
      terminal_->EnterRawMode();
      co_await Print("\r");
    } else if (!std::holds_alternative<InputWanted>(message)) {
      std::string bytes = screen_.Leave();
      co_await Print(bytes);
      Leave(message);
      co_return std::nullopt;
    }
    switch (request) {
      case Request::kNone: break;
      case Request::kEnter: {
        bool ends = co_await EndsEntry(editor);
        if (!ends) break;
        editor.buffer().End();
        co_await Draw(editor, prompt);
        std::string bytes = screen_.Leave();
        co_await Print(bytes);
        std::string entry = editor.buffer().text();
        while (EndsInBlankLine(entry)) entry.resize(entry.rfind('\n'));
        co_return entry;
      }
      case Request::kComplete: co_await Complete(editor); break;
      case Request::kInterrupt: {
        editor.buffer().End();
        co_await Draw(editor, prompt);
        std::string bytes = "^C" + screen_.Leave();
        co_await Print(bytes);
        co_return std::string();
      }
      case Request::kEndOfInput: {
        std::string bytes = screen_.Leave();
        co_await Print(bytes);
        co_return std::nullopt;
      }
      case Request::kSuspend: {
        std::string bytes = screen_.Leave();
        co_await Print(bytes);
        terminal_->Suspend();
        break;
      }
      case Request::kClearScreen:
        screen_.Forget();
        co_await Print("\x1B[H\x1B[2J");
        break;
    }
    // What was pasted without brackets is drawn once.
    if (mailbox_.empty()) co_await Draw(editor, prompt);
  }
}

// Enter was pressed. False: a line was begun instead.
async::Task<bool> Interactive::EndsEntry(LineEditor& editor) {
  LineBuffer& buffer = editor.buffer();
  const std::string& text = buffer.text();
  bool ends = IsBlank(text) || ParseColonCommand(text);
  if (!ends && buffer.on_last_line()) {
    // The indentation of a line that was left empty is ours.
    std::string asked = EndsInBlankLine(text) ? text.substr(0, text.rfind('\n') + 1) : text;
    auto answer = co_await session_.Ask(language_, CodeQuestion::kIsComplete, std::move(asked), 0);
    if (answer) {
      auto json = nlohmann::json::parse(*answer, nullptr, false);
      ends = !json.is_object() || json.value("status", "") != "incomplete";
    } else {
      ends = !LooksUnfinished(text);
    }
    // An empty line where a block must come is an error, which Python will tell.
    if (!ends && language_ == "python" && EndsInBlankLine(text)) {
      size_t last = text.find_last_not_of(" \t\n");
      ends = last != std::string::npos && text[last] == ':';
    }
  }
  if (!ends) {
    std::string indent = IndentAfter(buffer.line().substr(0, buffer.cursor() - buffer.line_start()), language_);
    buffer.Insert("\n" + indent);
  }
  co_return ends;
}

async::Task<void> Interactive::Complete(LineEditor& editor) {
  LineBuffer& buffer = editor.buffer();
  const std::string text = buffer.text();
  std::optional<Completion> completion;
  if (text.starts_with(':')) {
    if (text.find_first_of(" \n") >= buffer.cursor()) completion = CompleteName(ColonNames(), text, 1, buffer.cursor());
  } else {
    const size_t cursor = CharactersBefore(text, buffer.cursor());
    auto answer = co_await session_.Ask(language_, CodeQuestion::kComplete, text, cursor);
    if (answer) completion = ParseCompletion(*answer, text);
  }
  if (!completion) co_return;
  std::string prefix = CommonPrefix(completion->matches);
  const bool adds = !prefix.empty() && text.substr(completion->begin, completion->end - completion->begin) != prefix;
  if (adds) buffer.Replace(completion->begin, completion->end, prefix);
  if (adds || completion->matches.size() == 1) co_return;
  std::string list = screen_.Leave() + InColumns(completion->matches, terminal_->size().columns);
  co_await Print(list);
}

}  // namespace cella::cli
