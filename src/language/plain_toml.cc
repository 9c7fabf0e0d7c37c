#include "language/plain_toml.h"

#include <algorithm>

namespace cella::language {
namespace {

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  Result<std::vector<PlainTomlTable>> Run() {
    std::vector<PlainTomlTable> tables;
    for (SkipBlank(Lines::kCross); at_ < text_.size(); SkipBlank(Lines::kCross)) {
      if (Peek() == '[') {
        TRY(PlainTomlTable table, Header());
        bool repeated = std::ranges::any_of(tables, [&](const PlainTomlTable& other) {
          return other.name == table.name && !(other.array_element && table.array_element);
        });
        if (repeated) return Bad("this table was there before");
        tables.push_back(std::move(table));
      } else {
        if (tables.empty()) return Bad("a key before the first table");
        TRY(PlainTomlEntry entry, Entry());
        for (const PlainTomlEntry& other : tables.back().entries) {
          if (other.key == entry.key) return Bad("this key was there before");
        }
        tables.back().entries.push_back(std::move(entry));
      }
      TRY_VOID(EndOfLine());
    }
    return tables;
  }

 private:
  enum class Lines { kStay, kCross };

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  void SkipBlank(Lines lines) {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\n' && lines == Lines::kCross) {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  Status EndOfLine() {
    SkipBlank(Lines::kStay);
    if (at_ < text_.size() && Peek() != '\n') return Bad("something follows the value");
    return {};
  }

  Result<PlainTomlTable> Header() {
    PlainTomlTable table;
    table.line = line_;
    ++at_;
    table.array_element = Take('[');
    size_t start = at_;
    while (IsKeyCharacter(Peek()) || Peek() == '.') ++at_;
    table.name = text_.substr(start, at_ - start);
    if (table.name.empty() || !Take(']') || (table.array_element && !Take(']'))) return Bad("not a table's name");
    return table;
  }

  Result<std::string_view> Key() {
    size_t start = at_;
    while (IsKeyCharacter(Peek())) ++at_;
    std::string_view key = text_.substr(start, at_ - start);
    SkipBlank(Lines::kStay);
    if (key.empty() || !Take('=')) return Bad("not a 'key = value'");
    SkipBlank(Lines::kStay);
    return key;
  }

  Result<PlainTomlEntry> Entry() {
    PlainTomlEntry entry;
    entry.line = line_;
    TRY(entry.key, Key());
    if (Peek() == '[') {
      TRY(entry.value, List());
    } else if (Peek() == '{') {
      TRY(entry.value, InlineTable());
    } else {
      TRY(entry.value, String());
    }
    return entry;
  }

  Result<std::vector<std::string>> List() {
    std::vector<std::string> list;
    ++at_;
    for (SkipBlank(Lines::kCross); !Take(']'); SkipBlank(Lines::kCross)) {
      TRY(std::string element, String());
      list.push_back(std::move(element));
      SkipBlank(Lines::kCross);
      if (!Take(',') && Peek() != ']') return Bad("a list needs ',' or ']' here");
    }
    return list;
  }

  Result<std::vector<std::pair<std::string, std::string>>> InlineTable() {
    std::vector<std::pair<std::string, std::string>> table;
    ++at_;
    SkipBlank(Lines::kStay);
    if (Take('}')) return table;
    do {
      SkipBlank(Lines::kStay);
      TRY(std::string_view key, Key());
      TRY(std::string value, String());
      table.emplace_back(std::string(key), std::move(value));
      SkipBlank(Lines::kStay);
    } while (Take(','));
    if (!Take('}')) return Bad("a table needs ',' or '}' here");
    return table;
  }

  Result<std::string> String() {
    char quote = Peek();
    if (quote != '"' && quote != '\'') return Bad("only strings, lists of strings and tables of strings are read here");
    ++at_;
    if (text_.substr(at_).starts_with(quote == '"' ? "\"\"" : "''")) return Bad("multi-line strings are not read here");
    std::string value;
    while (at_ < text_.size() && Peek() != quote) {
      char c = text_[at_++];
      if (c == '\n') return Bad("the string has no end");
      if (c == '\\' && quote == '"') {
        char escaped = Peek();
        ++at_;
        if (escaped != '"' && escaped != '\\' && escaped != 'n' && escaped != 't') return Bad("unknown escape");
        c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
      }
      value += c;
    }
    if (!Take(quote)) return Bad("the string has no end");
    return value;
  }

  std::unexpected<Error> Bad(std::string_view what) const {
    return Err(ErrorCode::kInvalid, "{}:{}: {}", origin_, line_, what);
  }

  std::string_view text_;
  std::string_view origin_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<PlainTomlTable>> ParsePlainToml(std::string_view text, std::string_view origin) {
  return Parser(text, origin).Run();
}

}  // namespace cella::language
