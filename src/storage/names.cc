#include "storage/names.h"

#include <algorithm>

#include "base/text.h"

namespace cella::storage {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxShown = 80;
constexpr std::string_view kOurs = ".cella";  // files that are being written, and the index

constexpr std::string_view kPythonWords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                             "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                             "else",   "except", "finally", "for",      "from",     "global", "if",
                                             "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                             "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
constexpr std::string_view kFunctions[] = {"create", "get",    "list",      "search",
                                           "delete", "invoke", "call_sync", "call_async"};

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::unexpected<Error> Bad(std::string_view name, std::string_view why) {
  return Err(ErrorCode::kInvalid, "'{}' is not the name of an artifact: {}", Shown(name), why);
}

}  // namespace

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kMaxShown));
  std::ranges::replace_if(shown, IsControl, '?');
  shown = ToUtf8Lossy(shown);
  if (text.size() > kMaxShown) shown += "…";
  return shown;
}

bool IsUtf8(std::string_view text) { return ToUtf8Lossy(text) == text; }

Status CheckArtifactName(std::string_view name) {
  if (name.empty()) return Bad(name, "it is empty");
  if (name.size() > kMaxArtifactName) {
    return Bad(name, fmt::format("it has {} bytes, and {} are the most", name.size(), kMaxArtifactName));
  }
  if (std::ranges::any_of(name, IsControl)) return Bad(name, "it has a control character");
  if (!IsUtf8(name)) return Bad(name, "it is not UTF-8");
  if (name.starts_with('/')) return Bad(name, "it is absolute: names are relative, as 'reports/june.json'");
  size_t depth = 0;
  for (std::string_view rest = name;;) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty()) return Bad(name, "a part of it is empty");
    if (part == "." || part == "..") return Bad(name, fmt::format("'{}' is not allowed in it", part));
    if (part.starts_with(kOurs)) return Bad(name, fmt::format("parts that begin with '{}' are reserved", kOurs));
    if (++depth > kMaxDepth) return Bad(name, fmt::format("it has more than {} parts", kMaxDepth));
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

Status CheckWorkflowName(std::string_view name) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > kMaxWorkflowName || !is_letter(name.front()) || !std::ranges::all_of(name, fits)) {
    return Err(ErrorCode::kInvalid,
               "'{}' is not the name of a workflow: a letter is needed, then letters, digits and '_', at most {}",
               Shown(name), kMaxWorkflowName);
  }
  if (std::ranges::find(kPythonWords, name) != std::end(kPythonWords)) {
    return Err(ErrorCode::kInvalid, "'{}' is not the name of a workflow: it is a word of Python", name);
  }
  if (std::ranges::find(kFunctions, name) != std::end(kFunctions)) {
    return Err(ErrorCode::kInvalid, "'{}' is not the name of a workflow: workflows.{} is a function", name, name);
  }
  return {};
}

std::string WithoutPath(std::string message, const std::string& directory) {
  for (size_t at = 0; (at = message.find(directory, at)) != std::string::npos;) {
    const bool is_above = at + directory.size() < message.size() && message[at + directory.size()] == '/';
    message.replace(at, directory.size() + (is_above ? 1 : 0), is_above ? "" : ".");
  }
  return message;
}

}  // namespace cella::storage
