#include "cli/progress_events.h"

namespace cella::cli {
namespace {

// As many as the calls of a block may show.
constexpr size_t kMostLines = 2000;

}  // namespace

void ProgressEvents::Show(std::string_view line) {
  if (++shown_ > kMostLines) return;
  lines_.emplace_back(line);
  if (!std::exchange(writing_, true)) tasks_.Add(Write());
}

async::Task<void> ProgressEvents::Write() {
  bool wanted = true;
  while (wanted && !lines_.empty()) {
    Event event = ProgressEvent{std::move(lines_.front())};
    lines_.pop_front();
    wanted = co_await sink_.Emit(std::move(event));
  }
  lines_.clear();
  writing_ = false;
}

}  // namespace cella::cli
