#include "environment/requirement.h"

#include <algorithm>
#include <array>

#include "environment/marker.h"
#include "environment/spec_scanner.h"

namespace cella::environment {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kShownBytes = 80;
constexpr size_t kMaxParts = 64;  // extras, or specifiers

// An installer takes these for files.
constexpr std::array<std::string_view, 8> kFileEndings = {".whl",     ".zip", ".tar.gz", ".tgz",
                                                          ".tar.bz2", ".txt", ".toml",   ".tar.xz"};

std::string Shown(std::string_view text) {
  std::string shown;
  for (char c : text.substr(0, kShownBytes)) shown += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kShownBytes) shown += "...";
  return shown;
}

std::unexpected<Error> Refuse(std::string_view text, std::string_view why) {
  return Err(ErrorCode::kInvalid, "'{}' is not a requirement that can be installed: {}", Shown(text), why);
}

// What the text is instead of a requirement; empty: it may be one.
std::string_view Foreign(std::string_view text) {
  if (text.empty()) return "it is empty; write a package name, for example numpy>=2";
  if (text.size() > kMaxSpecBytes) return "it is longer than 512 bytes";
  if (text.starts_with('-')) return "options are not accepted; the operator configures index and options";
  for (char c : text) {
    if (c < ' ' || c > '~') return "only printable ASCII is accepted";
    if (c == '#' || c == '$' || c == '`' || c == '\\') return "the characters # $ ` and \\ are not accepted";
  }
  if (text.contains("://") || text.contains('@')) return "URLs are not accepted; name a package of the index";
  std::string_view head = text.substr(0, text.find(';'));
  if (head.contains('/') || head.starts_with('.')) return "paths are not accepted; name a package of the index";
  return {};
}

bool IsNameByte(char c) { return IsAlnum(c) || c == '.' || c == '_' || c == '-'; }

// After the opening bracket. Appends "[a,b]", or nothing if the brackets are empty.
bool ScanExtras(SpecScanner& in, std::string& out) {
  std::vector<std::string> extras;
  in.SkipBlanks();
  while (!in.Take(']')) {
    if (extras.size() > kMaxParts) return false;
    if (!extras.empty() && !in.Take(',')) return false;
    in.SkipBlanks();
    std::string_view extra = in.TakeWhile(IsNameByte);
    if (!IsPackageName(extra)) return false;
    extras.push_back(NormalizeName(extra));
    in.SkipBlanks();
  }
  std::ranges::sort(extras);
  extras.erase(std::unique(extras.begin(), extras.end()), extras.end());
  for (size_t i = 0; i < extras.size(); ++i) out += (i == 0 ? "[" : ",") + extras[i];
  if (!extras.empty()) out += ']';
  return true;
}

bool IsVersionByte(char c) {
  return IsAlnum(c) || c == '.' || c == '_' || c == '-' || c == '!' || c == '+' || c == '*';
}

// The version of a specifier with the operator `op`.
bool FitsOperator(std::string_view op, std::string_view version) {
  const bool equality = op == "==" || op == "!=";
  if (version.ends_with(".*")) {
    version.remove_suffix(2);
    return equality && !version.contains('+') && IsVersion(version);
  }
  if (version.contains('+') && !equality) return false;
  if (op == "~=" && !version.contains('.')) return false;
  return IsVersion(version);
}

// One "op version"; appended in canonical form.
bool ScanSpecifier(SpecScanner& in, std::string& out) {
  for (std::string_view op : {"===", "~=", "==", "!=", "<=", ">=", "<", ">"}) {
    if (!in.Take(op)) continue;
    if (op == "===") return false;
    in.SkipBlanks();
    std::string_view version = in.TakeWhile(IsVersionByte);
    if (!FitsOperator(op, version)) return false;
    out += op;
    out += version;
    return true;
  }
  return false;
}

// "op version, op version", with an optional comma at the end. Stops at what is none of it.
bool ScanSpecifiers(SpecScanner& in, std::string& out) {
  for (size_t count = 0; count <= kMaxParts; ++count) {
    if (count > 0) out += ',';
    if (!ScanSpecifier(in, out)) return false;
    in.SkipBlanks();
    if (!in.Take(',')) return true;
    in.SkipBlanks();
    if (in.AtEnd() || in.Peek() == ';' || in.Peek() == ')') return true;
  }
  return false;
}

}  // namespace

std::string NormalizeName(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool joint = c == '-' || c == '_' || c == '.';
    if (!joint) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!out.ends_with('-')) {
      out += '-';
    }
  }
  return out;
}

bool IsPackageName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || !std::ranges::all_of(name, IsNameByte)) return false;
  if (!IsAlnum(name.front()) || !IsAlnum(name.back())) return false;
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::ranges::none_of(kFileEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
}

Result<std::string> ParseSpecifiers(std::string_view text) {
  SpecScanner in(Trimmed(text));
  std::string out;
  if (text.size() <= kMaxSpecBytes) {
    if (IsVersion(Trimmed(text))) return "==" + std::string(Trimmed(text));
    if (ScanSpecifiers(in, out) && in.AtEnd()) return out;
  }
  return Err(ErrorCode::kInvalid, "'{}' is not a list of versions; write for example >=3.11,<4", Shown(text));
}

Result<Requirement> ParseRequirement(std::string_view text) {
  text = Trimmed(text);
  if (std::string_view foreign = Foreign(text); !foreign.empty()) return Refuse(text, foreign);
  SpecScanner in(text);
  std::string_view name = in.TakeWhile(IsNameByte);
  if (!IsPackageName(name)) return Refuse(text, "it does not begin with the name of a package");
  Requirement requirement{NormalizeName(name), NormalizeName(name)};
  in.SkipBlanks();
  if (in.Take('[') && !ScanExtras(in, requirement.text)) return Refuse(text, "the list of extras is malformed");
  in.SkipBlanks();
  constexpr std::string_view kMalformed =
      "the version is malformed; write for example numpy>=2,<3 (operators: == != <= >= < > ~=)";
  if (in.Take('(')) {
    in.SkipBlanks();
    if (!ScanSpecifiers(in, requirement.text) || !in.Take(')')) return Refuse(text, kMalformed);
    in.SkipBlanks();
  } else if (!in.AtEnd() && in.Peek() != ';') {
    if (!ScanSpecifiers(in, requirement.text)) return Refuse(text, kMalformed);
  }
  if (in.Take(';')) {
    std::string marker;
    if (!ScanMarker(in, marker)) {
      return Refuse(text, "what follows ';' is not a marker; write for example python_version < \"3.12\"");
    }
    requirement.text += " ; " + marker;
  }
  if (!in.AtEnd()) return Refuse(text, "there is more behind its end");
  return requirement;
}

Result<std::vector<Requirement>> ParseRequirements(std::span<const std::string> texts, size_t at_most) {
  if (texts.size() > at_most) {
    return Err(ErrorCode::kInvalid, "{} requirements were given, and at most {} are accepted", texts.size(), at_most);
  }
  std::vector<Requirement> found;
  found.reserve(texts.size());
  for (const std::string& text : texts) {
    TRY(Requirement requirement, ParseRequirement(text));
    found.push_back(std::move(requirement));
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace cella::environment
