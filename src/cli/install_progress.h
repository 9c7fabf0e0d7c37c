// Progress of an installation on standard error: a bar that changes on a terminal, nothing elsewhere. When it fails,
// the last lines are shown.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace cella::cli {

// The line that a terminal shows, from the lines of the installer. Pure.
class ProgressBar {
 public:
  void Take(std::string_view line);
  // "[######..............] Downloading numpy (16.1MiB)", of at most `width` columns; plain ASCII.
  std::string Render(size_t width) const;
  // Of the whole installation, an estimate from 0 to 1 that never falls.
  double fraction() const { return fraction_; }

 private:
  std::string line_;
  double fraction_ = 0;
  size_t downloads_ = 0, downloaded_ = 0;
};

class InstallProgress {
 public:
  InstallProgress();
  void Show(std::string_view line);
  void Clear();
  void Explain() const;

 private:
  bool terminal_;
  bool shown_ = false;
  ProgressBar bar_;
  std::deque<std::string> last_;
};

}  // namespace cella::cli
