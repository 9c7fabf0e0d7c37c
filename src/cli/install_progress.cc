#include "cli/install_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.h"

namespace cella::cli {
namespace {

constexpr size_t kKeptLines = 12;

size_t Width() {
  struct winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

InstallProgress::InstallProgress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void InstallProgress::Show(std::string_view line) {
  last_.push_back(ToUtf8Lossy(line));
  if (last_.size() > kKeptLines) last_.pop_front();
  if (!terminal_) return;
  const std::string text = last_.back().substr(0, Width() - 1);
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  shown_ = true;
}

void InstallProgress::Clear() {
  if (shown_) std::fprintf(stderr, "\r\x1b[K");
  shown_ = false;
}

void InstallProgress::Explain() const {
  for (const std::string& line : last_) std::fprintf(stderr, "  %s\n", line.c_str());
}

}  // namespace cella::cli
