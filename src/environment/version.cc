// IsVersion: the grammar of PEP 440, read once from left to right.
#include <array>
#include <string>

#include "environment/requirement.h"
#include "environment/spec_scanner.h"

namespace cella::environment {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSeparator(char c) { return c == '.' || c == '-' || c == '_'; }

bool TakeNumber(SpecScanner& in) { return !in.TakeWhile(IsDigit).empty(); }

// [-_.] word [-_.] number, each separator and the number optional. Takes nothing if there is no such word.
template <size_t N>
bool TakeSegment(SpecScanner& in, const std::array<std::string_view, N>& words) {
  SpecScanner ahead = in;
  if (!ahead.AtEnd() && IsSeparator(ahead.Peek())) (void)ahead.Take(ahead.Peek());
  for (std::string_view word : words) {
    if (!ahead.Take(word)) continue;
    SpecScanner numbered = ahead;
    if (!numbered.AtEnd() && IsSeparator(numbered.Peek())) (void)numbered.Take(numbered.Peek());
    in = TakeNumber(numbered) ? numbered : ahead;
    return true;
  }
  return false;
}

// A post release may also be "-1".
bool TakePost(SpecScanner& in) {
  if (TakeSegment(in, std::to_array<std::string_view>({"post", "rev", "r"}))) return true;
  SpecScanner ahead = in;
  if (!ahead.Take('-') || !TakeNumber(ahead)) return false;
  in = ahead;
  return true;
}

bool TakeLocal(SpecScanner& in) {
  if (!in.Take('+')) return true;
  while (true) {
    if (in.TakeWhile(IsAlnum).empty()) return false;
    if (in.AtEnd()) return true;
    if (!IsSeparator(in.Peek())) return false;
    (void)in.Take(in.Peek());
  }
}

}  // namespace

bool IsVersion(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  SpecScanner in(lower);
  (void)in.Take('v');
  if (!TakeNumber(in)) return false;
  if (in.Take('!') && !TakeNumber(in)) return false;
  while (true) {
    SpecScanner ahead = in;
    if (!ahead.Take('.') || !TakeNumber(ahead)) break;
    in = ahead;
  }
  (void)TakeSegment(in, std::to_array<std::string_view>({"alpha", "a", "beta", "b", "preview", "pre", "rc", "c"}));
  (void)TakePost(in);
  (void)TakeSegment(in, std::to_array<std::string_view>({"dev"}));
  return TakeLocal(in) && in.AtEnd();
}

}  // namespace cella::environment
