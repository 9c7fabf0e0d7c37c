#include "environment/marker.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace cella::environment {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::array<std::string_view, 12> kVariables = {
    "python_version",      "python_full_version",    "os_name",
    "sys_platform",        "platform_machine",       "platform_system",
    "platform_release",    "platform_version",       "platform_python_implementation",
    "implementation_name", "implementation_version", "extra"};

class MarkerReader {
 public:
  MarkerReader(SpecScanner& in, std::string& out) : in_(in), out_(out) {}

  bool Or(int depth) {
    if (depth > kMaxDepth) return false;
    do {
      if (!And(depth)) return false;
    } while (TakeWord("or"));
    return true;
  }

 private:
  bool And(int depth) {
    do {
      if (!Term(depth)) return false;
    } while (TakeWord("and"));
    return true;
  }

  bool Term(int depth) {
    in_.SkipBlanks();
    if (!in_.Take('(')) return Comparison();
    out_ += '(';
    if (!Or(depth + 1)) return false;
    in_.SkipBlanks();
    out_ += ')';
    return in_.Take(')');
  }

  bool Comparison() { return Value() && Operator() && Value(); }

  bool Value() {
    in_.SkipBlanks();
    for (char quote : {'"', '\''}) {
      if (!in_.Take(quote)) continue;
      std::string_view text = in_.TakeWhile([&](char c) { return c != '"' && c != '\''; });
      if (!in_.Take(quote)) return false;
      out_ += '"';
      out_ += text;
      out_ += '"';
      return true;
    }
    std::string_view name = in_.TakeWhile([](char c) { return IsAlnum(c) || c == '_'; });
    if (std::ranges::find(kVariables, name) == kVariables.end()) return false;
    out_ += name;
    return true;
  }

  bool Operator() {
    in_.SkipBlanks();
    for (std::string_view op : {"<=", ">=", "==", "!=", "~=", "<", ">"}) {
      if (!in_.Take(op)) continue;
      out_ += ' ';
      out_ += op;
      out_ += ' ';
      return true;
    }
    std::string_view word = in_.TakeWhile(IsAlnum);
    if (word == "in") {
      out_ += " in ";
      return true;
    }
    in_.SkipBlanks();
    if (word != "not" || in_.TakeWhile(IsAlnum) != "in") return false;
    out_ += " not in ";
    return true;
  }

  // The word with a border on both sides.
  bool TakeWord(std::string_view word) {
    in_.SkipBlanks();
    SpecScanner ahead = in_;
    if (ahead.TakeWhile(IsAlnum) != word) return false;
    in_ = ahead;
    out_ += ' ';
    out_ += word;
    out_ += ' ';
    return true;
  }

  SpecScanner& in_;
  std::string& out_;
};

}  // namespace

bool ScanMarker(SpecScanner& in, std::string& out) {
  if (!MarkerReader(in, out).Or(0)) return false;
  in.SkipBlanks();
  return in.AtEnd();
}

}  // namespace cella::environment
