#include "cli/repl/line_editor.h"

#include <fmt/format.h>

#include <algorithm>

namespace cella::cli {
namespace {

constexpr std::string_view kStep = "    ";

std::string_view TrimRight(std::string_view text) {
  size_t last = text.find_last_not_of(" \t\n");
  return last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
}

// Without its comment, as far as that can be told without a parser.
bool EndsWithColon(std::string_view line) {
  if (TrimRight(line).ends_with(':')) return line.find_first_not_of(" \t") != line.find('#');
  return TrimRight(line.substr(0, line.find('#'))).ends_with(':');
}

bool OnlyIndentBefore(const LineBuffer& buffer) {
  return buffer.indent().size() == buffer.cursor() - buffer.line_start();
}

}  // namespace

LineEditor::Request LineEditor::Handle(const Key& key) {
  if (query_) return HandleSearch(key);
  switch (key.code) {
    case KeyCode::kEnter: return Request::kEnter;
    case KeyCode::kInterrupt: return Request::kInterrupt;
    case KeyCode::kSuspend: return Request::kSuspend;
    case KeyCode::kClearScreen: return Request::kClearScreen;
    case KeyCode::kEndOfInput:
      if (buffer_.empty()) return Request::kEndOfInput;
      buffer_.DeleteRight();
      return Request::kNone;
    case KeyCode::kTab:
      // Where a line begins there is nothing to complete.
      if (OnlyIndentBefore(buffer_)) {
        buffer_.Insert(kStep);
        return Request::kNone;
      }
      return Request::kComplete;
    default: Edit(key); return Request::kNone;
  }
}

void LineEditor::Edit(const Key& key) {
  switch (key.code) {
    case KeyCode::kText: buffer_.Insert(key.text); break;
    case KeyCode::kPaste:
      // Lines that bring their own indentation do not want ours.
      if (key.text.starts_with(' ') && key.text.find('\n') != std::string::npos && OnlyIndentBefore(buffer_)) {
        buffer_.DeleteToLineStart();
      }
      buffer_.Insert(key.text);
      break;
    case KeyCode::kNewline: buffer_.Insert("\n"); break;
    case KeyCode::kBackspace: buffer_.DeleteLeft(); break;
    case KeyCode::kDelete: buffer_.DeleteRight(); break;
    case KeyCode::kLeft: buffer_.Left(); break;
    case KeyCode::kRight: buffer_.Right(); break;
    case KeyCode::kHome: buffer_.LineStart(); break;
    case KeyCode::kEnd: buffer_.LineEnd(); break;
    case KeyCode::kWordLeft: buffer_.WordLeft(); break;
    case KeyCode::kWordRight: buffer_.WordRight(); break;
    case KeyCode::kDeleteWordLeft: Delete(buffer_.DeleteWordLeft()); break;
    case KeyCode::kDeleteWordRight: Delete(buffer_.DeleteWordRight()); break;
    case KeyCode::kDeleteToStart: Delete(buffer_.DeleteToLineStart()); break;
    case KeyCode::kDeleteToEnd: Delete(buffer_.DeleteToLineEnd()); break;
    case KeyCode::kYank: buffer_.Insert(deleted_); break;
    case KeyCode::kUp:
      if (buffer_.Up()) break;
      [[fallthrough]];
    case KeyCode::kPreviousEntry:
      if (history_ != nullptr) {
        size_t position = position_.value_or(history_->entries().size());
        if (position > 0) ShowEntry(position - 1);
      }
      break;
    case KeyCode::kDown:
      if (buffer_.Down()) break;
      [[fallthrough]];
    case KeyCode::kNextEntry:
      if (position_) ShowEntry(*position_ + 1);
      break;
    case KeyCode::kSearch:
      if (history_ == nullptr) break;
      before_search_ = buffer_.text();
      query_.emplace();
      match_ = history_->entries().size();
      found_ = true;
      break;
    default: break;
  }
}

void LineEditor::Delete(std::string deleted) {
  if (!deleted.empty()) deleted_ = std::move(deleted);
}

void LineEditor::ShowEntry(size_t position) {
  if (!position_) typed_ = buffer_.text();
  if (position < history_->entries().size()) {
    position_ = position;
    buffer_.Set(history_->entries()[position]);
  } else {
    position_.reset();
    buffer_.Set(typed_);
  }
}

std::optional<std::string> LineEditor::search_prompt() const {
  if (!query_) return std::nullopt;
  return fmt::format("({} '{}') ", found_ ? "search" : "not found", *query_);
}

// The newest entry before `end` that holds the query.
void LineEditor::Search(size_t end) {
  for (size_t position = end; position-- > 0;) {
    if (history_->entries()[position].find(*query_) == std::string::npos) continue;
    match_ = position;
    found_ = true;
    buffer_.Set(history_->entries()[position]);
    return;
  }
  found_ = false;
}

void LineEditor::EndSearch() {
  query_.reset();
  position_.reset();
}

LineEditor::Request LineEditor::HandleSearch(const Key& key) {
  const size_t all = history_->entries().size();
  switch (key.code) {
    case KeyCode::kText:
      *query_ += key.text;
      Search(std::min(match_ + 1, all));
      return Request::kNone;
    case KeyCode::kBackspace:
      while (!query_->empty() && (static_cast<unsigned char>(query_->back()) & 0xC0) == 0x80) query_->pop_back();
      if (!query_->empty()) query_->pop_back();
      Search(all);
      return Request::kNone;
    case KeyCode::kSearch: Search(match_); return Request::kNone;
    case KeyCode::kAbort:
    case KeyCode::kInterrupt:
      buffer_.Set(before_search_);
      EndSearch();
      return Request::kNone;
    default: EndSearch(); return Handle(key);
  }
}

std::string IndentAfter(std::string_view line, std::string_view language) {
  std::string indent(line.substr(0, std::min(line.find_first_not_of(" \t"), line.size())));
  if (language == "python" && EndsWithColon(line)) indent += kStep;
  return indent;
}

bool LooksUnfinished(std::string_view code) {
  size_t newline = code.rfind('\n');
  const bool several = newline != std::string_view::npos;
  std::string_view last = several ? code.substr(newline + 1) : code;
  // A block of lines is ended by an empty one.
  if (several) return !TrimRight(last).empty();
  std::string_view trimmed = TrimRight(last);
  return !trimmed.empty() && std::string_view(":\\([{").find(trimmed.back()) != std::string_view::npos;
}

}  // namespace cella::cli
