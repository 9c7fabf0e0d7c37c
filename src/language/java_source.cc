#include "language/java_source.h"

#include <algorithm>
#include <vector>

namespace cella::language {
namespace {

bool IsIdentifier(char c) {
  // Bytes beyond ASCII are letters of some script.
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Hands out words and single punctuation characters, without comments, strings and blanks.
class Scanner {
 public:
  explicit Scanner(std::string_view code) : code_(code) {}

  // Empty at the end.
  std::string_view Next() {
    while (at_ < code_.size()) {
      std::string_view rest = code_.substr(at_);
      if (rest.starts_with("//")) {
        SkipPast("\n", 2);
      } else if (rest.starts_with("/*")) {
        SkipPast("*/", 2);
      } else if (rest.starts_with("\"\"\"")) {
        SkipPast("\"\"\"", 3);
      } else if (rest[0] == '"' || rest[0] == '\'') {
        SkipLiteral(rest[0]);
      } else if (IsIdentifier(rest[0])) {
        size_t end = 1;
        while (end < rest.size() && IsIdentifier(rest[end])) ++end;
        at_ += end;
        return rest.substr(0, end);
      } else if (static_cast<unsigned char>(rest[0]) <= ' ') {
        ++at_;
      } else {
        ++at_;
        return rest.substr(0, 1);
      }
    }
    return {};
  }

 private:
  void SkipPast(std::string_view end, size_t opening) {
    size_t found = code_.find(end, at_ + opening);
    at_ = found == std::string_view::npos ? code_.size() : found + end.size();
  }
  void SkipLiteral(char quote) {
    for (++at_; at_ < code_.size() && code_[at_] != quote && code_[at_] != '\n'; ++at_) {
      if (code_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  std::string_view code_;
  size_t at_ = 0;
};

struct Type {
  std::string_view name;
  bool is_public = false;
  bool has_main = false;
};

bool OpensType(std::string_view word) {
  return word == "class" || word == "interface" || word == "enum" || word == "record";
}

}  // namespace

JavaSource InspectJava(std::string_view code) {
  std::vector<Type> types;
  std::string package;
  int depth = 0;
  bool is_public = false;
  std::string_view before;
  std::string_view previous;
  Scanner scanner(code);
  for (std::string_view word = scanner.Next(); !word.empty(); word = scanner.Next()) {
    if (word == "{") {
      ++depth;
    } else if (word == "}") {
      if (depth > 0) --depth;
      is_public = false;
    } else if (depth == 0) {
      if (word == "package" && types.empty() && package.empty()) {
        for (word = scanner.Next(); !word.empty() && word != ";"; word = scanner.Next()) package += word;
      } else if (word == ";") {
        is_public = false;
      } else if (word == "public") {
        is_public = true;
      } else if (OpensType(previous) && IsIdentifier(word[0])) {
        types.push_back({word, is_public, false});
      }
    } else if (depth == 1 && word == "(" && previous == "main" && before == "void" && !types.empty()) {
      types.back().has_main = true;
    }
    before = previous;
    previous = word;
  }

  JavaSource source;
  if (types.empty()) return source;
  auto open = std::ranges::find_if(types, [](const Type& type) { return type.is_public; });
  auto main = std::ranges::find_if(types, [](const Type& type) { return type.has_main && type.is_public; });
  if (main == types.end()) main = std::ranges::find_if(types, [](const Type& type) { return type.has_main; });
  const Type& named = open != types.end() ? *open : main != types.end() ? *main : types.front();
  // A name longer than a file may have is left to fail in the compiler, not in open().
  if (named.name.size() <= 200) source.file_stem = named.name;
  if (main != types.end()) {
    source.main_class = package.empty() ? std::string(main->name) : package + "." + std::string(main->name);
    // Where the first class has a main of its own, the launcher starts that one; only a public class outranks it.
    source.main_is_first = main == types.begin();
  }
  return source;
}

}  // namespace cella::language
