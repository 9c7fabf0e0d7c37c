#include "cli/repl/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/repl/char_width.h"
#include "cli/repl/escape_filter.h"

namespace cella::cli {
namespace {

constexpr size_t kMaxMatches = 1000;
constexpr size_t kMaxShown = 200;
constexpr size_t kMaxMatch = 256;

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::optional<size_t> ByteOf(std::string_view text, size_t characters) {
  size_t byte = 0;
  for (; characters > 0; --characters) {
    if (byte == text.size()) return std::nullopt;
    byte += DecodeUtf8(text.substr(byte)).size;
  }
  return byte;
}

}  // namespace

size_t CharactersBefore(std::string_view text, size_t byte) {
  return static_cast<size_t>(std::ranges::count_if(text.substr(0, byte), [](char c) { return !Continues(c); }));
}

std::optional<Completion> ParseCompletion(std::string_view answer, std::string_view entry) {
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  auto start = json.find("start"), end = json.find("end"), matches = json.find("matches");
  if (start == json.end() || end == json.end() || matches == json.end()) return std::nullopt;
  if (!start->is_number_unsigned() || !end->is_number_unsigned() || !matches->is_array()) return std::nullopt;
  auto begin_byte = ByteOf(entry, start->get<size_t>());
  auto end_byte = ByteOf(entry, end->get<size_t>());
  if (!begin_byte || !end_byte || *begin_byte > *end_byte) return std::nullopt;
  Completion completion{*begin_byte, *end_byte, {}};
  for (const auto& match : *matches) {
    if (!match.is_string() || completion.matches.size() == kMaxMatches) continue;
    const auto& text = match.get_ref<const std::string&>();
    if (!text.empty() && text.size() <= kMaxMatch && PlainText(text) == text) completion.matches.push_back(text);
  }
  if (completion.matches.empty()) return std::nullopt;
  return completion;
}

std::optional<Completion> CompleteName(std::string_view names, std::string_view entry, size_t begin, size_t cursor) {
  Completion completion{begin, cursor, {}};
  const std::string_view typed = entry.substr(begin, cursor - begin);
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (name.starts_with(typed)) completion.matches.emplace_back(name);
  }
  if (completion.matches.empty()) return std::nullopt;
  return completion;
}

std::string CommonPrefix(const std::vector<std::string>& matches) {
  std::string prefix = matches.front();
  for (const std::string& match : matches) {
    auto [a, b] = std::ranges::mismatch(prefix, match);
    size_t size = static_cast<size_t>(a - prefix.begin());
    while (size > 0 && size < prefix.size() && Continues(prefix[size])) --size;
    prefix.resize(size);
  }
  return prefix;
}

std::string InColumns(const std::vector<std::string>& matches, size_t width) {
  const size_t shown = std::min(matches.size(), kMaxShown);
  size_t widest = 0;
  for (size_t i = 0; i < shown; ++i) widest = std::max(widest, TextWidth(matches[i]));
  const size_t columns = std::max<size_t>(1, width / (widest + 2));
  const size_t rows = (shown + columns - 1) / columns;
  std::string out;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = row; i < shown; i += rows) {
      out += matches[i];
      if (i + rows < shown) out.append(widest + 2 - TextWidth(matches[i]), ' ');
    }
    out += '\n';
  }
  if (shown < matches.size()) out += fmt::format("… and {} more\n", matches.size() - shown);
  return out;
}

}  // namespace cella::cli
