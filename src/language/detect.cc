#include "language/detect.h"

namespace cella::language {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr std::string_view kDefaultLanguage = "python";

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Cuts the first word off.
std::string_view TakeWord(std::string_view& text) {
  size_t start = text.find_first_not_of(kBlank);
  if (start == std::string_view::npos) {
    text = {};
    return {};
  }
  size_t end = text.find_first_of(kBlank, start);
  std::string_view word = text.substr(start, end == std::string_view::npos ? end : end - start);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end);
  return word;
}

// "py" of "a/b.py"; empty for "b", ".py" and "b.".
std::string_view Extension(std::string_view file_name) {
  std::string_view base = BaseName(file_name);
  size_t dot = base.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string_view() : base.substr(dot + 1);
}

}  // namespace

std::string_view ShebangProgram(std::string_view code) {
  if (code.starts_with("\xef\xbb\xbf")) code.remove_prefix(3);
  if (!code.starts_with("#!")) return {};
  std::string_view line = code.substr(2, code.find('\n') - 2);
  std::string_view program = BaseName(TakeWord(line));
  if (program != "env") return program;
  // env's own options (-S, -i, --split-string=…) and NAME=VALUE words come before the program; -u and -C take a word.
  for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
    if (word == "-u" || word == "-C") {
      (void)TakeWord(line);
    } else if (word.starts_with("-S") && word.size() > 2) {
      return BaseName(word.substr(2));
    } else if (!word.starts_with('-') && !word.contains('=')) {
      return BaseName(word);
    }
  }
  return {};
}

Result<const Language*> Detect(const LanguageTable& table, const DetectRequest& request) {
  if (!request.language.empty()) {
    if (const Language* language = table.Find(request.language)) return language;
    return Err(ErrorCode::kInvalid, "unknown language '{}'; known are: {}", request.language, table.Names());
  }
  const Language* by_extension = table.FindByExtension(Extension(request.file_name));
  if (by_extension != nullptr && !by_extension->shebang_wins) return by_extension;
  std::string_view program = ShebangProgram(request.code);
  if (const Language* by_shebang = table.FindByShebang(program)) return by_shebang;
  if (by_extension != nullptr) return by_extension;
  if (!program.empty()) {
    return Err(ErrorCode::kInvalid, "unknown language: the code asks for '{}'; pass --lang with one of: {}", program,
               table.Names());
  }
  if (!request.file_name.empty()) {
    return Err(
        ErrorCode::kInvalid,
        "the language of '{}' is unknown: neither its extension nor a '#!' line tells; pass --lang with one of: {}",
        request.file_name, table.Names());
  }
  if (const Language* language = table.Find(kDefaultLanguage)) return language;
  return Err(ErrorCode::kInternal, "the language table lacks '{}'", kDefaultLanguage);
}

}  // namespace cella::language
