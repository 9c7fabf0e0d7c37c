#include "cli/install_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace cella::cli {
namespace {

constexpr size_t kKeptLines = 12;
constexpr size_t kBarWidth = 20;

// How far an installation is when the installer writes a line that begins so.
struct Phase {
  std::string_view begins;
  double fraction;
};
constexpr Phase kPhases[] = {{"Fetching", 0.02},  {"Resolving", 0.05}, {"Resolved", 0.15},
                             {"Building", 0.3},   {"Prepared", 0.7},   {"Compiling", 0.75},
                             {"Installing", 0.8}, {"Installed", 0.9},  {"Verifying", 0.95}};
constexpr double kDownloadsBegin = 0.15, kDownloadsEnd = 0.7;

size_t Width() {
  struct winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

void ProgressBar::Take(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  line_ = line;
  for (char& c : line_) {
    if (c < ' ' || c > '~') c = '?';
  }
  double now = 0;
  for (const Phase& phase : kPhases) {
    if (line.starts_with(phase.begins)) now = phase.fraction;
  }
  if (line.starts_with("Downloading")) ++downloads_;
  if (line.starts_with("Downloaded")) ++downloaded_;
  if (downloads_ > 0) {
    const double part = static_cast<double>(std::min(downloaded_, downloads_)) / static_cast<double>(downloads_);
    now = std::max(now, kDownloadsBegin + (kDownloadsEnd - kDownloadsBegin) * part);
  }
  fraction_ = std::max(fraction_, now);
}

std::string ProgressBar::Render(size_t width) const {
  const auto filled = static_cast<size_t>(fraction_ * kBarWidth);
  std::string text = "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] " + line_;
  return text.substr(0, width);
}

InstallProgress::InstallProgress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void InstallProgress::Show(std::string_view line) {
  last_.push_back(ToUtf8Lossy(line));
  if (last_.size() > kKeptLines) last_.pop_front();
  if (!terminal_) return;
  bar_.Take(line);
  std::fprintf(stderr, "\r\x1b[K%s", bar_.Render(Width() - 1).c_str());
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
