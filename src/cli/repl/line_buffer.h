// The text that is being typed, one or several lines of UTF-8, with a cursor that stands between characters. A mark
// that combines with the character before it moves and goes with it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cella::cli {

class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes
  bool empty() const { return text_.empty(); }

  void Set(std::string text);  // the cursor at its end
  void Insert(std::string_view text);
  // Bytes [begin, end) become `text`, and the cursor stands behind it.
  void Replace(size_t begin, size_t end, std::string_view text);

  void Left() { cursor_ = Before(cursor_); }
  void Right() { cursor_ = After(cursor_); }
  void WordLeft() { cursor_ = WordBefore(); }
  void WordRight() { cursor_ = WordAfter(); }
  void LineStart() { cursor_ = line_start(); }
  void LineEnd() { cursor_ = line_end(); }
  void End() { cursor_ = text_.size(); }
  // False when there is no such line.
  bool Up();
  bool Down();

  // What was deleted.
  std::string DeleteLeft();
  std::string DeleteRight();
  std::string DeleteWordLeft();
  std::string DeleteWordRight();
  std::string DeleteToLineStart();
  std::string DeleteToLineEnd();  // at the end of a line: the line break

  size_t line_start() const;  // of the line with the cursor
  size_t line_end() const;
  bool on_last_line() const { return line_end() == text_.size(); }
  std::string_view line() const { return std::string_view(text_).substr(line_start(), line_end() - line_start()); }
  // White space that the cursor's line begins with, as far as the cursor.
  std::string_view indent() const;

 private:
  size_t Before(size_t position) const;
  size_t After(size_t position) const;
  size_t WordBefore() const;
  size_t WordAfter() const;
  std::string Erase(size_t begin, size_t end);
  void MoveToColumn(size_t line_begin, size_t characters);
  size_t column() const;  // characters between the line's start and the cursor

  std::string text_;
  size_t cursor_ = 0;
};

}  // namespace cella::cli
