#include "cli/output_sinks.h"

#include <fcntl.h>

namespace cella::cli {

OwnOutput::OwnOutput(async::Loop& loop, int fd) {
  // A write to a terminal that is full, or stopped with Ctrl-S, must not stop our timers.
  async::Opened opened = async::OpenPrivately(fd, O_WRONLY);
  if (opened.fd) {
    descriptor_.emplace(loop, std::move(opened.fd), opened.sharing);
  } else {
    closed_ = true;
    failure_ = ErrnoText(EBADF);
  }
}

async::Task<bool> OwnOutput::Write(std::string_view bytes) {
  if (closed_) co_return false;
  auto written = co_await descriptor_->WriteAll(bytes);
  if (!written) {
    closed_ = true;
    failure_ = written.error().message;
  }
  co_return !closed_;
}

async::Task<bool> PlainSink::Emit(Event event) {
  if (auto* output = std::get_if<OutputEvent>(&event)) {
    bool wanted = co_await (output->stream == Stream::kStdout ? out_ : err_).Write(output->bytes);
    co_return wanted;
  }
  if (auto* started = std::get_if<StartedEvent>(&event)) {
    isolation_ = std::move(started->isolation);
  } else if (auto* file = std::get_if<FileEvent>(&event); file != nullptr && !file->change.not_copied.empty()) {
    (void)co_await err_.Write(
        fmt::format("cella: '{}' was not copied out: {}\n", file->change.path, file->change.not_copied));
  } else if (auto* error = std::get_if<ErrorEvent>(&event)) {
    // Of a cell; a program writes it itself.
    shows_error_ = true;
    const RunError& what = error->error;
    (void)co_await err_.Write(what.traceback.empty() ? fmt::format("{}: {}\n", what.name, what.message)
                                                     : what.traceback + "\n");
  } else if (auto* truncated = std::get_if<TruncatedEvent>(&event)) {
    std::string note = fmt::format("\n[cella: {} bytes of {} dropped (--output-limit)]\n", truncated->dropped,
                                   ToString(truncated->stream));
    (void)co_await err_.Write(note);
  }
  co_return true;
}

async::Task<bool> NdjsonSink::WriteLine(std::string line) {
  if (line.empty()) co_return true;
  line.push_back('\n');
  bool wanted = co_await out_.Write(line);
  co_return wanted;
}

async::Task<bool> NdjsonSink::Emit(Event event) {
  // A character that was cut off before a gap, or at the end, is not continued behind it.
  if (auto* truncated = std::get_if<TruncatedEvent>(&event)) {
    (void)co_await WriteLine(encoder_.Flush(truncated->stream));
  } else if (std::holds_alternative<FinishedEvent>(event)) {
    (void)co_await WriteLine(encoder_.Flush(Stream::kStdout));
    (void)co_await WriteLine(encoder_.Flush(Stream::kStderr));
  }
  bool wanted = co_await WriteLine(encoder_.Encode(event));
  co_return wanted;
}

}  // namespace cella::cli
