#include "cli/repl/screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/repl/char_width.h"

namespace cella::cli {
namespace {

constexpr size_t kTabStop = 4;

class Layout {
 public:
  explicit Layout(size_t columns) : columns_(std::max<size_t>(columns, 2)) {}

  void Add(std::string_view shown, size_t width) {
    if (column_ + width > columns_) Break();
    rows_.back() += shown;
    column_ += width;
  }
  void AddText(std::string_view text, size_t cursor, bool has_cursor, std::string_view continuation) {
    size_t line_column = column_;
    for (size_t position = 0; position < text.size();) {
      if (has_cursor && position == cursor) Mark();
      Decoded next = DecodeUtf8(text.substr(position));
      if (next.character == '\n') {
        Break();
        AddText(continuation, 0, false, "");
        line_column = column_;
      } else if (next.character == '\t') {
        const size_t spaces = kTabStop - (column_ - std::min(column_, line_column)) % kTabStop;
        for (size_t i = 0; i < spaces; ++i) Add(" ", 1);
      } else if (next.character < 0x20 || (next.character >= 0x7F && next.character < 0xA0)) {
        Add("?", 1);
      } else {
        Add(next.character == kReplacement ? "\xEF\xBF\xBD" : text.substr(position, next.size),
            CharWidth(next.character));
      }
      position += next.size;
    }
    if (has_cursor && cursor == text.size()) Mark();
  }

  std::vector<std::string> rows_{1};
  size_t cursor_row_ = 0, cursor_column_ = 0;

 private:
  void Break() {
    rows_.emplace_back();
    column_ = 0;
  }
  // Behind a full row the cursor stands on the next one.
  void Mark() {
    if (column_ == columns_) Break();
    cursor_row_ = rows_.size() - 1;
    cursor_column_ = column_;
  }

  size_t columns_;
  size_t column_ = 0;
};

}  // namespace

std::string Screen::Draw(const Drawing& drawing, ScreenSize size) {
  Layout layout(size.columns);
  layout.AddText(drawing.prompt, 0, false, "");
  layout.AddText(drawing.text, drawing.cursor, true, drawing.continuation);

  const size_t height = std::max<size_t>(size.rows, 1);
  const size_t total = layout.rows_.size();
  if (layout.cursor_row_ < first_) first_ = layout.cursor_row_;
  if (layout.cursor_row_ >= first_ + height) first_ = layout.cursor_row_ - height + 1;
  first_ = std::min(first_, total - std::min(total, height));

  std::string out;
  if (row_ > 0) out += fmt::format("\x1B[{}A", std::min(row_, height));
  out += "\r\x1B[J";
  rows_ = std::min(total - first_, height);
  for (size_t i = 0; i < rows_; ++i) {
    if (i > 0) out += "\r\n";
    out += layout.rows_[first_ + i];
  }
  row_ = layout.cursor_row_ - first_;
  if (size_t up = rows_ - 1 - row_; up > 0) out += fmt::format("\x1B[{}A", up);
  out += "\r";
  if (layout.cursor_column_ > 0) out += fmt::format("\x1B[{}C", layout.cursor_column_);
  return out;
}

std::string Screen::Leave() {
  std::string out;
  if (size_t down = rows_ - 1 - row_; down > 0) out += fmt::format("\x1B[{}B", down);
  Forget();
  return out + "\r\n";
}

}  // namespace cella::cli
