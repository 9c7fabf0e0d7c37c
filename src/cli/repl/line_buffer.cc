#include "cli/repl/line_buffer.h"

#include <algorithm>

#include "cli/repl/char_width.h"

namespace cella::cli {
namespace {

constexpr size_t kIndent = 4;

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool IsWordByte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         static_cast<unsigned char>(byte) >= 0x80;
}

}  // namespace

void LineBuffer::Set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::Insert(std::string_view text) { Replace(cursor_, cursor_, text); }

void LineBuffer::Replace(size_t begin, size_t end, std::string_view text) {
  text_.replace(begin, end - begin, text);
  cursor_ = begin + text.size();
}

size_t LineBuffer::Before(size_t position) const {
  while (position > 0) {
    do --position;
    while (position > 0 && Continues(text_[position]));
    if (CharWidth(DecodeUtf8(std::string_view(text_).substr(position)).character) > 0) break;
  }
  return position;
}

size_t LineBuffer::After(size_t position) const {
  if (position == text_.size()) return position;
  position += DecodeUtf8(std::string_view(text_).substr(position)).size;
  while (position < text_.size()) {
    Decoded next = DecodeUtf8(std::string_view(text_).substr(position));
    if (CharWidth(next.character) > 0) break;
    position += next.size;
  }
  return position;
}

size_t LineBuffer::WordBefore() const {
  size_t position = cursor_;
  while (position > 0 && !IsWordByte(text_[position - 1])) --position;
  while (position > 0 && IsWordByte(text_[position - 1])) --position;
  return position;
}

size_t LineBuffer::WordAfter() const {
  size_t position = cursor_;
  while (position < text_.size() && !IsWordByte(text_[position])) ++position;
  while (position < text_.size() && IsWordByte(text_[position])) ++position;
  return position;
}

size_t LineBuffer::line_start() const {
  size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

size_t LineBuffer::line_end() const { return std::min(text_.find('\n', cursor_), text_.size()); }

std::string_view LineBuffer::indent() const {
  std::string_view before = std::string_view(text_).substr(line_start(), cursor_ - line_start());
  return before.substr(0, std::min(before.find_first_not_of(" \t"), before.size()));
}

size_t LineBuffer::column() const {
  size_t characters = 0;
  for (size_t position = line_start(); position < cursor_; position = After(position)) ++characters;
  return characters;
}

void LineBuffer::MoveToColumn(size_t line_begin, size_t characters) {
  cursor_ = line_begin;
  const size_t end = line_end();
  while (characters-- > 0 && cursor_ < end) cursor_ = After(cursor_);
}

bool LineBuffer::Up() {
  if (line_start() == 0) return false;
  const size_t characters = column();
  cursor_ = line_start() - 1;
  MoveToColumn(line_start(), characters);
  return true;
}

bool LineBuffer::Down() {
  if (on_last_line()) return false;
  const size_t characters = column();
  MoveToColumn(line_end() + 1, characters);
  return true;
}

std::string LineBuffer::Erase(size_t begin, size_t end) {
  std::string erased = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  cursor_ = begin;
  return erased;
}

std::string LineBuffer::DeleteLeft() {
  // Within the indentation a step goes back to the stop before.
  std::string_view before = indent();
  const bool only_spaces = before.find('\t') == std::string_view::npos;
  if (!before.empty() && only_spaces && before.size() == cursor_ - line_start()) {
    return Erase(cursor_ - ((before.size() - 1) % kIndent + 1), cursor_);
  }
  return Erase(Before(cursor_), cursor_);
}

std::string LineBuffer::DeleteRight() { return Erase(cursor_, After(cursor_)); }
std::string LineBuffer::DeleteWordLeft() { return Erase(WordBefore(), cursor_); }
std::string LineBuffer::DeleteWordRight() { return Erase(cursor_, WordAfter()); }
std::string LineBuffer::DeleteToLineStart() { return Erase(line_start(), cursor_); }

std::string LineBuffer::DeleteToLineEnd() {
  return Erase(cursor_, cursor_ == line_end() ? After(cursor_) : line_end());
}

}  // namespace cella::cli
