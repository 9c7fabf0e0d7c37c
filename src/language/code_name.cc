#include "language/code_name.h"

#include <algorithm>

namespace cella::language {
namespace {

constexpr std::string_view kShown = "<code>";
// Lua shows the end of a long path.
constexpr std::string_view kDots = "...";
constexpr size_t kLeastEnd = 20;

// How much of the end of `text` is the end of `word`.
size_t CommonEnd(std::string_view text, std::string_view word) {
  size_t length = 0;
  while (length < std::min(text.size(), word.size()) &&
         text[text.size() - 1 - length] == word[word.size() - 1 - length]) {
    ++length;
  }
  return length;
}

}  // namespace

CodeName::CodeName(const Plan& plan, std::string_view cwd) {
  if (plan.generated_file.empty()) return;
  const std::string& file = plan.generated_file;
  const size_t slash = file.rfind('/');
  const std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  // Absolute, as Python and Node show it; relative, as compilers and shells do.
  const std::string directory(slash == std::string::npos ? cwd : std::string_view(file).substr(0, slash));
  for (const char* scheme : {"file://", ""}) paths_.push_back(scheme + directory + "/" + name);
  paths_.push_back("./" + name);
  paths_.push_back(name);
}

std::string CodeName::Show(std::string bytes, bool more) {
  if (paths_.empty()) return bytes;
  if (!held_.empty()) bytes.insert(0, std::exchange(held_, {}));
  const std::string& name = paths_.back();
  // Its end is random, and enough to find it by.
  const std::string_view random =
      std::string_view(name).substr(name.rfind('_') == std::string::npos ? 0 : name.rfind('_'));
  std::string shown;
  size_t done = 0;
  for (size_t at = bytes.find(random); at != std::string::npos; at = bytes.find(random, at + 1)) {
    const size_t end = at + random.size();
    const std::string_view before = std::string_view(bytes).substr(done, end - done);
    const auto path = std::ranges::find_if(paths_, [&](const std::string& each) { return before.ends_with(each); });
    size_t length = path == paths_.end() ? 0 : path->size();
    if (length == 0) {
      const size_t common = CommonEnd(before, name);
      if (common < kLeastEnd || !before.substr(0, before.size() - common).ends_with(kDots)) continue;
      length = common + kDots.size();
    }
    shown.append(bytes, done, before.size() - length);
    shown += kShown;
    done = end;
  }
  const size_t longest = paths_.front().size();
  size_t end = bytes.size();
  if (more) {
    for (size_t start = std::max(done, end - std::min(end, longest)); start < end; ++start) {
      const std::string_view tail = std::string_view(bytes).substr(start, end - start);
      if (std::ranges::any_of(paths_, [&](const std::string& each) { return each.starts_with(tail); })) {
        held_ = tail;
        end = start;
        break;
      }
    }
  }
  if (done == 0 && end == bytes.size()) return bytes;
  shown.append(bytes, done, end - done);
  return shown;
}

}  // namespace cella::language
