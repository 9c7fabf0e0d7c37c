// Draws the entry that is being edited: every row is placed by itself, so that nothing depends on how a terminal wraps.
// Pure: it returns bytes. Needs only carriage return, "up", "right" and "erase below", which all terminals since the
// VT100 know. An entry taller than the terminal is shown around its cursor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cella::cli {

struct ScreenSize {
  size_t rows = 24;
  size_t columns = 80;
};

struct Drawing {
  std::string_view prompt;        // before the first line; plain text
  std::string_view continuation;  // before the others
  std::string_view text;
  size_t cursor = 0;  // in bytes
};

class Screen {
 public:
  // In place of what was drawn before.
  std::string Draw(const Drawing& drawing, ScreenSize size);
  // Leaves the drawing where it is and goes on below it.
  std::string Leave();
  // Another program cleared the screen, or wrote below: the next drawing begins where the cursor is.
  void Forget() { *this = Screen{}; }

 private:
  size_t rows_ = 1;   // drawn
  size_t row_ = 0;    // of the cursor, from the first that was drawn
  size_t first_ = 0;  // the row of the entry that is drawn first
};

}  // namespace cella::cli
