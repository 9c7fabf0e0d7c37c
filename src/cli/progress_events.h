// Lines of an installation as events of a run: written in the order in which they come, before the run begins. Lives on
// the loop; call Finish before it goes away.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "async/task_group.h"
#include "run/output.h"

namespace cella::cli {

class ProgressEvents {
 public:
  ProgressEvents(async::Loop& loop, run::EventSink& sink) : sink_(sink), tasks_(loop) {}

  void Show(std::string_view line);
  // Until everything is written, or the reader is gone.
  async::Task<void> Finish() { return tasks_.Join(); }

 private:
  async::Task<void> Write();

  run::EventSink& sink_;
  std::deque<std::string> lines_;
  size_t shown_ = 0;
  bool writing_ = false;
  async::TaskGroup tasks_;
};

}  // namespace cella::cli
