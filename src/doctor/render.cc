#include "doctor/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cella::doctor {
namespace {

constexpr size_t kStatusWidth = 8;  // "degraded"
constexpr size_t kLeastText = 40;
constexpr size_t kMostNameWidth = 24;  // longer names push their own line only

std::string_view Title(Section section) {
  switch (section) {
    case Section::kSandbox: return "The sandbox";
    case Section::kLimits: return "Limits";
    case Section::kEngines: return "Container engines";
    case Section::kLanguages: break;
  }
  return "Languages";
}

std::string_view Colour(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk: return "\x1b[32m";
    case CheckStatus::kDegraded: return "\x1b[33m";
    case CheckStatus::kMissing: return "\x1b[31m";
    case CheckStatus::kInfo: break;
  }
  return "\x1b[2m";
}

std::string Paint(std::string_view text, std::string_view colour, const TableStyle& style) {
  if (style.colours == Colours::kOff) return std::string(text);
  return fmt::format("{}{}\x1b[0m", colour, text);
}

// Characters, for texts in UTF-8: continuation bytes do not count.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

// Messages of the system and names of files must not move the cursor of a terminal.
std::string Printable(std::string_view text) {
  std::string clean;
  for (char c : text) {
    bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    clean += control && c != '\n' ? '?' : c;
  }
  return clean;
}

// The lines of a text; prose is broken between words, indented lines stay whole.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(' ')) {
      lines.emplace_back(line);
      continue;
    }
    std::string current;
    while (!line.empty()) {
      size_t space = std::min(line.find(' '), line.size());
      std::string_view word = line.substr(0, space);
      line.remove_prefix(std::min(space + 1, line.size()));
      if (!current.empty() && Columns(current) + 1 + Columns(word) > width) lines.push_back(std::exchange(current, {}));
      if (!current.empty()) current += ' ';
      current += word;
    }
    lines.push_back(std::move(current));
  }
  return lines;
}

size_t NameWidth(const Report& report, Section section) {
  size_t width = 0;
  for (const Check& check : report.checks) {
    if (check.section == section && Columns(check.name) <= kMostNameWidth) width = std::max(width, Columns(check.name));
  }
  return width;
}

std::string RenderCheck(const Check& check, size_t name_width, const TableStyle& style) {
  const size_t indent = 2 + kStatusWidth + 2 + name_width + 2;
  const size_t room = std::max(kLeastText, static_cast<size_t>(style.width) - std::min<size_t>(indent, style.width));
  const std::string margin(indent, ' ');
  std::string status(ToString(check.status));
  std::string name = Printable(check.name);
  std::string text =
      "  " + Paint(status, Colour(check.status), style) + std::string(kStatusWidth - status.size() + 2, ' ');
  size_t columns = Columns(name);
  text += name + (columns > name_width ? "  " : std::string(name_width - columns + 2, ' '));
  bool first = true;
  for (const std::string& line : Wrap(Printable(check.detail), room)) {
    text += (first ? "" : margin) + line + "\n";
    first = false;
  }
  if (first) text += "\n";
  if (check.fix.empty()) return text;
  first = true;
  for (const std::string& line : Wrap(Printable(check.fix), room - 5)) {
    text += margin + (first ? Paint("fix:", "\x1b[1m", style) + " " : "     ") + line + "\n";
    first = false;
  }
  return text;
}

}  // namespace

std::string RenderTable(const Report& report, const TableStyle& style) {
  std::string text;
  for (Section section : {Section::kSandbox, Section::kLimits, Section::kEngines, Section::kLanguages}) {
    bool empty = std::ranges::none_of(report.checks, [&](const Check& check) { return check.section == section; });
    if (empty) continue;
    text += Paint(Title(section), "\x1b[1m", style) + "\n";
    size_t name_width = NameWidth(report, section);
    for (const Check& check : report.checks) {
      if (check.section == section) text += RenderCheck(check, name_width, style);
    }
    text += "\n";
  }
  auto degraded = std::ranges::count(report.checks, CheckStatus::kDegraded, &Check::status);
  std::string verdict = !report.sandbox ? "The sandbox cannot run here: see what is missing above."
                        : degraded == 0 ? "The sandbox runs here."
                                        : fmt::format("The sandbox runs here; {} degraded.", degraded);
  CheckStatus overall = !report.sandbox ? CheckStatus::kMissing : CheckStatus::kOk;
  text += fmt::format("cella {}: {}\n", report.version, Paint(verdict, Colour(overall), style));
  return text;
}

std::string RenderJson(const Report& report) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["sandbox"] = report.sandbox;
  json["version"] = report.version;
  json["checks"] = Json::array();
  for (const Check& check : report.checks) {
    json["checks"].push_back({{"name", check.name},
                              {"status", ToString(check.status)},
                              {"detail", check.detail},
                              {"fix", check.fix.empty() ? Json(nullptr) : Json(check.fix)}});
  }
  // Names of files need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cella::doctor
