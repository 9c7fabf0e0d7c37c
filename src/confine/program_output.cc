#include "confine/program_output.h"

#include <unistd.h>

#include <array>
#include <string>

#include "os/syscalls.h"
#include "os/unread.h"

namespace cella::confine {

ProgramOutput::ProgramOutput(async::ReadySet& ready, language::CodeName name) : ready_(ready), name_(std::move(name)) {}

Status ProgramOutput::Open(UniqueFd out, UniqueFd err) {
  Close(out_);
  Close(err_);
  out_.fd = std::move(out);
  err_.fd = std::move(err);
  out_.held = err_.held = false;
  TRY_VOID(ready_.Add(out_.fd.get(), out_.key));
  return ready_.Add(err_.fd.get(), err_.key);
}

void ProgramOutput::HoldFull(const run::Output& out) {
  Hold(out_, out.full(out_.stream));
  Hold(err_, out.full(err_.stream));
}

void ProgramOutput::Read(int key, run::Output& out) {
  if (key == kStdout) (void)ReadOnce(out_, out);
  if (key == kStderr) (void)ReadOnce(err_, out);
}

void ProgramOutput::ReadRest(run::Output& out) {
  ReadRest(out_, out);
  ReadRest(err_, out);
}

void ProgramOutput::Close(Stream stream) { Close(stream == Stream::kStdout ? out_ : err_); }

bool ProgramOutput::ReadOnce(Pipe& pipe, run::Output& out) {
  if (!pipe.fd) return false;
  std::array<char, kReadSize> buffer;
  const ssize_t n = os::RetryOnEintr([&] { return read(pipe.fd.get(), buffer.data(), buffer.size()); });
  if (n <= 0) {
    if (n == 0 || errno != EAGAIN) Close(pipe);
    return false;
  }
  std::string bytes(buffer.data(), static_cast<size_t>(n));
  if (pipe.stream == Stream::kStderr) {
    const bool more = static_cast<size_t>(n) == buffer.size() && os::UnreadBytes(pipe.fd.get()) > 0;
    bytes = name_.Show(std::move(bytes), more);
  }
  if (!bytes.empty()) out.Push(OutputEvent{pipe.stream, std::move(bytes)});
  return true;
}

void ProgramOutput::ReadRest(Pipe& pipe, run::Output& out) {
  for (size_t taken = 0; taken < kLargestPipe && ReadOnce(pipe, out); taken += kReadSize) {
  }
  if (std::string rest = pipe.stream == Stream::kStderr ? name_.Rest() : ""; !rest.empty()) {
    out.Push(OutputEvent{pipe.stream, std::move(rest)});
  }
  Close(pipe);
}

void ProgramOutput::Hold(Pipe& pipe, bool hold) {
  if (!pipe.fd || pipe.held == hold) return;
  pipe.held = hold;
  if (hold) {
    ready_.Remove(pipe.fd.get());
  } else {
    (void)ready_.Add(pipe.fd.get(), pipe.key);
  }
}

void ProgramOutput::Close(Pipe& pipe) {
  Hold(pipe, true);
  pipe.fd.Reset();
}

}  // namespace cella::confine
