// One output stream of a runner, with the marks that the runner writes into it before it sends a display: text travels
// in a pipe and displays on a socket, and a mark in the text is the place of the display. A mark is
//   NUL "cella " TOKEN " " NUMBER NUL
// with the token of the run (runners/README.md). The guest knows the token. It can forge marks, which delay its own
// text for a bounded time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cella::executor {

class MarkedText {
 public:
  explicit MarkedText(std::string_view token);

  void Feed(std::string_view bytes) { buffer_ += bytes; }
  // The text up to the next mark that stands: that of a display which has not been passed on.
  std::string Take();
  // Text behind this mark and earlier ones may be taken.
  void Release(uint64_t number);
  // The text stands at this mark; 0: at none.
  uint64_t stands_at() const { return stands_at_; }
  // The last mark that the text has reached.
  uint64_t reached() const { return reached_; }
  // At the end of the run: all that is left, without marks.
  std::string Rest();

 private:
  const std::string opening_;
  std::string buffer_;
  uint64_t released_ = 0;
  uint64_t reached_ = 0;
  uint64_t stands_at_ = 0;
};

}  // namespace cella::executor
