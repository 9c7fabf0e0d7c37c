#include "cli/repl/run_view.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/base64.h"
#include "base/text.h"
#include "base/units.h"

namespace cella::cli {
namespace {

constexpr size_t kMaxLine = 512;
constexpr size_t kBarColumns = 79;
constexpr std::string_view kErrorColor = "\x1B[31m";
constexpr std::string_view kNoColor = "\x1B[0m";

const std::string* Find(const MimeBundle& bundle, std::string_view type) {
  for (const auto& [name, content] : bundle.data) {
    if (name == type) return &content;
  }
  return nullptr;
}

std::string WithNewline(std::string_view text) {
  std::string line(text);
  if (!line.ends_with('\n')) line.push_back('\n');
  return line;
}

std::string_view DescribeState(StateAfter state) {
  switch (state) {
    case StateAfter::kRolledBack: return "rolled back to before this run";
    case StateAfter::kLost: return "state lost, fresh interpreter";
    case StateAfter::kKept: return "state kept";
    case StateAfter::kNone: break;
  }
  return "";
}

}  // namespace

std::string DescribeEnd(const Outcome& outcome, StateAfter state) {
  std::string what;
  switch (outcome.status) {
    case RunStatus::kOk:
    case RunStatus::kError:
      // The traceback has been shown.
      if (state == StateAfter::kKept && outcome.error) return "";
      if (outcome.exit_code != 0 && !outcome.error) what = fmt::format("exit code {}", outcome.exit_code);
      if (state == StateAfter::kKept || state == StateAfter::kNone) return what;
      // By its own code, or in the moment after the run before.
      if (what.empty() && state == StateAfter::kRolledBack) return "the interpreter ended; rolled back";
      if (what.empty()) what = "the interpreter ended";
      break;
    case RunStatus::kCrashed:
      what = outcome.signal ? fmt::format("crashed: {}", strsignal(*outcome.signal)) : "crashed";
      break;
    default:
      what = ToString(outcome.status);
      if (outcome.error) what += ": " + PlainText(outcome.error->message);
  }
  std::string_view described = DescribeState(state);
  return described.empty() || outcome.status == RunStatus::kRejected ? what : fmt::format("{}; {}", what, described);
}

RunView::Output::Output(async::Loop& loop, int fd) : own(loop, fd), terminal(isatty(fd) == 1) {}

RunView::RunView(async::Loop& loop, std::string images, Mailbox* mailbox)
    : out_(loop, STDOUT_FILENO), err_(loop, STDERR_FILENO), saved_(std::move(images)), mailbox_(mailbox) {
  const char* no_color = std::getenv("NO_COLOR");
  colors_ = err_.terminal && (no_color == nullptr || *no_color == '\0');
}

void RunView::Note(std::string_view written) {
  size_t newline = written.rfind('\n');
  if (newline != std::string_view::npos) {
    line_.clear();
    written.remove_prefix(newline + 1);
  }
  line_ += written.substr(0, kMaxLine - std::min(kMaxLine, line_.size()));
}

async::Task<bool> RunView::Write(Output& output, std::string_view bytes) {
  std::string filtered;
  if (output.terminal) {
    filtered = output.filter.Feed(bytes);
    bytes = filtered;
    Note(bytes);
  }
  bool wanted = co_await output.own.Write(bytes);
  if (!wanted && &output == &out_ && on_reader_gone_) on_reader_gone_();
  co_return wanted;
}

std::string RunView::TakeUnfinishedLine() {
  // What moved the cursor, or was cut off here, cannot be repeated.
  const bool movable = line_.size() < kMaxLine && line_.find_first_of("\r\b\t") == std::string::npos;
  if (!movable) return "";
  return PlainText(std::exchange(line_, {}));
}

async::Task<void> RunView::EndLine() {
  if (line_.empty()) co_return;
  line_.clear();
  (void)co_await (out_.terminal ? out_ : err_).own.Write("\n");
}

async::Task<void> RunView::Complain(std::string_view text) {
  co_await EndLine();
  std::string line = WithNewline(text);
  if (err_.terminal) {
    EscapeFilter filter;
    line = filter.Feed(line) + filter.Finish();
  }
  if (colors_) line = fmt::format("{}{}{}", kErrorColor, line, kNoColor);
  (void)co_await err_.own.Write(line);
}

async::Task<void> RunView::ShowProgress(std::string_view line) {
  if (!err_.terminal) co_return;
  if (!shows_bar_) {
    co_await EndLine();
    bar_ = {};
  }
  shows_bar_ = true;
  bar_.Take(line);
  (void)co_await err_.own.Write(fmt::format("\r\x1b[K{}", bar_.Render(kBarColumns)));
}

async::Task<void> RunView::ClearProgress() {
  if (std::exchange(shows_bar_, false)) (void)co_await err_.own.Write("\r\x1b[K");
}

async::Task<bool> RunView::Emit(Event event) {
  if (const auto* progress = std::get_if<ProgressEvent>(&event)) {
    co_await ShowProgress(progress->text);
    co_return true;
  }
  co_await ClearProgress();
  if (auto* output = std::get_if<OutputEvent>(&event)) {
    bool wanted = co_await Write(output->stream == Stream::kStdout ? out_ : err_, output->bytes);
    co_return wanted;
  }
  if (auto* value = std::get_if<ValueEvent>(&event)) {
    co_await Show(value->bundle, value->text);
  } else if (auto* display = std::get_if<DisplayEvent>(&event)) {
    if (!display->clear) co_await Show(display->bundle, "");
  } else if (auto* error = std::get_if<ErrorEvent>(&event)) {
    const RunError& e = error->error;
    std::string text = e.traceback.empty() ? fmt::format("{}: {}", e.name, e.message) : e.traceback;
    co_await Complain(text);
  } else if (auto* truncated = std::get_if<TruncatedEvent>(&event)) {
    std::string note =
        fmt::format("[{} bytes of {} dropped (--output-limit)]", truncated->dropped, ToString(truncated->stream));
    co_await Complain(note);
  } else if (auto* input = std::get_if<InputRequestEvent>(&event)) {
    if (mailbox_ != nullptr) mailbox_->Post(InputWanted{input->prompt, input->password});
  } else if (auto* finished = std::get_if<FinishedEvent>(&event)) {
    co_await Finish(*finished);
  }
  co_return true;
}

// A sentence about the file in which the part that no terminal shows was saved; empty: there is none.
std::string RunView::Save(const MimeBundle& bundle) {
  struct Kind {
    std::string_view type, extension, what;
    bool base64;
  };
  static constexpr Kind kKinds[] = {{"image/png", "png", "image", true},
                                    {"image/jpeg", "jpg", "image", true},
                                    {"image/svg+xml", "svg", "image", false},
                                    {"text/html", "html", "html output", false}};
  for (const Kind& kind : kKinds) {
    const std::string* content = Find(bundle, kind.type);
    if (content == nullptr) continue;
    Result<std::string> bytes = kind.base64 ? DecodeBase64(*content) : *content;
    if (!bytes) return fmt::format("[{}: {}]\n", kind.what, bytes.error().message);
    auto path = saved_.Save(kind.extension, *bytes);
    if (!path) return fmt::format("[{}, {} bytes: not saved: {}]\n", kind.what, bytes->size(), path.error().message);
    return fmt::format("[{}, {} bytes: saved to {}]\n", kind.what, bytes->size(), *path);
  }
  return "";
}

async::Task<void> RunView::Show(const MimeBundle& bundle, std::string_view text) {
  const bool image = Find(bundle, "image/png") != nullptr || Find(bundle, "image/jpeg") != nullptr ||
                     Find(bundle, "image/svg+xml") != nullptr;
  const std::string* plain = Find(bundle, "text/plain");
  std::string shown;
  if (!text.empty() || (plain != nullptr && !image)) shown = WithNewline(text.empty() ? *plain : text);
  if (image || shown.empty()) shown += Save(bundle);
  for (std::string_view type : {"text/markdown", "text/latex"}) {
    if (const std::string* other = Find(bundle, type); other != nullptr && shown.empty()) shown = WithNewline(*other);
  }
  if (shown.empty() && !bundle.data.empty()) {
    const auto& [type, content] = bundle.data.front();
    shown = fmt::format("[{} output, {} bytes]\n", PlainText(type), content.size());
  }
  co_await EndLine();
  (void)co_await Write(out_, shown);
}

async::Task<void> RunView::Finish(const FinishedEvent& finished) {
  for (Output* output : {&out_, &err_}) {
    if (std::string rest = output->filter.Finish(); !rest.empty()) (void)co_await output->own.Write(rest);
  }
  std::string end = DescribeEnd(finished.outcome, finished.state);
  if (!end.empty()) {
    std::string line = fmt::format("[{}]", end);
    co_await Complain(line);
  }
  if (shows_time_) {
    const Usage& usage = finished.outcome.usage;
    co_await EndLine();
    std::string line = fmt::format("[{:.1f} ms, {:.1f} ms of processor time]\n", usage.wall_ms, usage.cpu_ms);
    (void)co_await err_.own.Write(line);
  }
  co_await EndLine();
}

}  // namespace cella::cli
