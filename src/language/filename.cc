#include "language/filename.h"

#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/sha256.h"
#include "language/java_source.h"

namespace cella::language {
namespace {

constexpr size_t kMaxComponent = 255;
constexpr size_t kMaxPath = 4095;
constexpr std::string_view kBlank = " \t\r";

std::string_view Trim(std::string_view text) {
  size_t start = text.find_first_not_of(kBlank);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlank) - start + 1);
}

std::string_view TakeLine(std::string_view& code) {
  size_t end = code.find('\n');
  std::string_view line = code.substr(0, end);
  code = end == std::string_view::npos ? std::string_view() : code.substr(end + 1);
  return line;
}

std::string_view CommentEnd(std::string_view opening) {
  if (opening == "/*") return "*/";
  if (opening == "<!--") return "-->";
  return {};
}

// ES modules open their lines with import or export; `import(` and `import.meta` also occur in scripts.
bool LooksLikeJsModule(std::string_view code) {
  while (!code.empty()) {
    std::string_view line = Trim(TakeLine(code));
    if (line.starts_with("export ") || line.starts_with("export{") || line.starts_with("import ") ||
        line.starts_with("import{") || line.starts_with("import\"") || line.starts_with("import'")) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> FilenameComment(const Language& language, std::string_view code) {
  if (code.starts_with("\xef\xbb\xbf")) code.remove_prefix(3);
  std::string_view line = Trim(TakeLine(code));
  if (line.starts_with("#!") || line == "<?php") line = Trim(TakeLine(code));
  for (const std::string& opening : language.comments) {
    if (!line.starts_with(opening)) continue;
    std::string_view rest = Trim(line.substr(opening.size()));
    constexpr std::string_view kWord = "filename:";
    if (!EqualsIgnoringCase(rest.substr(0, kWord.size()), kWord)) continue;
    rest = rest.substr(kWord.size());
    std::string_view closing = CommentEnd(opening);
    if (!closing.empty()) rest = rest.substr(0, rest.find(closing));
    return std::string(Trim(rest));
  }
  return std::nullopt;
}

Result<std::string> CheckFileName(std::string_view name) {
  auto refused = [&] {
    std::string shown;
    for (char c : name.substr(0, 256)) shown += c == '\0' ? std::string("\\0") : std::string(1, c);
    return Err(ErrorCode::kInvalid, "file name '{}' is not in the workspace", shown);
  };
  if (name.empty() || name.starts_with('/') || name.ends_with('/') || name.contains('\0') || name.size() > kMaxPath) {
    return refused();
  }
  std::string clean;
  std::string_view last;
  for (std::string_view rest = name; !rest.empty();) {
    size_t slash = rest.find('/');
    last = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (last == ".." || last.size() > kMaxComponent) return refused();
    if (last.empty() || last == ".") continue;
    if (!clean.empty()) clean += '/';
    clean += last;
  }
  if (last == "." || clean.empty()) return refused();
  return clean;
}

std::string GeneratedFileName(const Language& language, std::string_view code) {
  if (language.java_class) return InspectJava(code).file_stem + ".java";
  std::string extension = language.extensions.front();
  if (language.js_module && LooksLikeJsModule(code)) extension = "mjs";
  return fmt::format("tmp_code_{}_{}.{}", Sha256Hex(code), RandomHex(8), extension);
}

}  // namespace cella::language
