// Editing of one entry, as Emacs keys and arrows have it: keys in, text and cursor out. Pure: it neither reads nor
// draws (screen.h). What Enter, Tab and Ctrl-C mean is the caller's business, who gets them back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/repl/history.h"
#include "cli/repl/key_decoder.h"
#include "cli/repl/line_buffer.h"

namespace cella::cli {

class LineEditor {
 public:
  // The history outlives this; null: none.
  explicit LineEditor(const History* history) : history_(history) {}

  // What the caller must act on; everything else has been done.
  enum class Request { kNone, kEnter, kComplete, kInterrupt, kEndOfInput, kSuspend, kClearScreen };
  Request Handle(const Key& key);

  const LineBuffer& buffer() const { return buffer_; }
  LineBuffer& buffer() { return buffer_; }
  // While the history is searched, the prompt of the search.
  std::optional<std::string> search_prompt() const;

 private:
  void Edit(const Key& key);
  Request HandleSearch(const Key& key);
  void Search(size_t newest);
  void EndSearch();
  void ShowEntry(size_t position);
  void Delete(std::string deleted);

  const History* history_;
  LineBuffer buffer_;
  std::string deleted_;               // what Ctrl-Y brings back
  std::optional<size_t> position_;    // of the entry that is shown; nothing: what was being typed
  std::string typed_;                 // that, meanwhile
  std::optional<std::string> query_;  // what is searched for
  size_t match_ = 0;                  // its entry
  bool found_ = true;
  std::string before_search_;
};

// The white space that the line after `line` begins with: what it has itself, and in Python a step more behind a colon.
std::string IndentAfter(std::string_view line, std::string_view language);

// For languages without an assistant: whether more lines must be coming.
bool LooksUnfinished(std::string_view code);

}  // namespace cella::cli
