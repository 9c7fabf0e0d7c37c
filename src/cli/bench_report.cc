#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace cella::cli {
namespace {

double Median(const BenchRow& row) { return Percentile(row.milliseconds, 0.5); }

// How many times its floor a row takes, where that was measured.
std::optional<double> OverFloor(const BenchRow& row, const std::vector<BenchRow>& rows) {
  auto floor = std::ranges::find(rows, row.floor, &BenchRow::name);
  if (row.floor.empty() || floor == rows.end() || floor->milliseconds.empty()) return std::nullopt;
  return Median(row) / Median(*floor);
}

}  // namespace

double Percentile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(samples.size())));
  return samples[std::min(samples.size() - 1, rank == 0 ? 0 : rank - 1)];
}

std::string RenderComparison(const std::vector<BenchRow>& rows) {
  std::string text = fmt::format("{:<34} {:>9} {:>9} {:>10} {:>7}\n", "", "p50 ms", "p99 ms", "over bare", "ratio");
  const double bare = Median(rows.front());
  for (const BenchRow& row : rows) {
    if (!row.unavailable.empty()) {
      text += fmt::format("{:<34} {}\n", row.name, row.unavailable);
      continue;
    }
    double median = Median(row);
    text += fmt::format("{:<34} {:>9.2f} {:>9.2f} {:>+10.2f} {:>6.2f}x  {}\n", row.name, median,
                        Percentile(row.milliseconds, 0.99), median - bare, median / bare, row.note);
  }
  return text;
}

std::string RenderTable(const std::vector<BenchRow>& rows, const std::vector<BenchFigure>& figures) {
  std::string text = fmt::format("{:<48} {:>9} {:>9} {:>8}\n", "", "p50 ms", "p99 ms", "floors");
  for (const BenchRow& row : rows) {
    if (!row.unavailable.empty()) {
      text += fmt::format("{:<48} {}\n", row.name, row.unavailable);
      continue;
    }
    auto over = OverFloor(row, rows);
    text += fmt::format("{:<48} {:>9.3f} {:>9.3f} {:>8}  {}\n", row.name, Median(row),
                        Percentile(row.milliseconds, 0.99), over ? fmt::format("{:.1f}x", *over) : "", row.note);
  }
  for (const BenchFigure& figure : figures) {
    text += fmt::format("{:<48} {:>9.1f} {}\n", figure.name, figure.value, figure.unit);
  }
  return text;
}

std::string RenderJson(const std::vector<BenchRow>& rows, const std::vector<BenchFigure>& figures) {
  nlohmann::ordered_json json;
  json["unit"] = "ms";
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json entry{{"name", row.name}, {"note", row.note}};
    if (!row.unavailable.empty()) {
      entry["unavailable"] = row.unavailable;
    } else {
      entry["runs"] = row.milliseconds.size();
      entry["p50"] = Median(row);
      entry["p99"] = Percentile(row.milliseconds, 0.99);
      entry["min"] = Percentile(row.milliseconds, 0);
      if (auto over = OverFloor(row, rows)) entry["floors"] = *over;
    }
    json["rows"].push_back(std::move(entry));
  }
  json["figures"] = nlohmann::ordered_json::array();
  for (const BenchFigure& figure : figures) {
    json["figures"].push_back({{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}});
  }
  return json.dump(2) + "\n";
}

std::string RenderSvg(const std::vector<BenchRow>& rows) {
  double longest = 1;
  size_t shown = 0;
  for (const BenchRow& row : rows) {
    if (!row.unavailable.empty()) continue;
    longest = std::max(longest, Median(row));
    ++shown;
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n",
      20 + shown * 28);
  size_t line = 0;
  for (const BenchRow& row : rows) {
    if (!row.unavailable.empty()) continue;
    double median = Median(row);
    auto y = 10 + line++ * 28;
    svg += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", y + 15, row.name);
    svg += fmt::format("<rect x=\"250\" y=\"{}\" width=\"{:.1f}\" height=\"18\" fill=\"{}\"/>\n", y,
                       380 * median / longest, row.name.starts_with("cella") ? "#2a6f97" : "#a9b4bd");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{:.1f} ms</text>\n", 256 + 380 * median / longest, y + 15, median);
  }
  return svg + "</svg>\n";
}

}  // namespace cella::cli
