// Progress of an installation on standard error: one line that changes on a terminal, nothing elsewhere. When it fails,
// the last lines are shown.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace cella::cli {

class InstallProgress {
 public:
  InstallProgress();
  void Show(std::string_view line);
  void Clear();
  void Explain() const;

 private:
  bool terminal_;
  bool shown_ = false;
  std::deque<std::string> last_;
};

}  // namespace cella::cli
