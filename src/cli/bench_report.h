// Samples of interleaved commands, and how they are shown.
#pragma once

#include <string>
#include <vector>

namespace cella::cli {

struct BenchRow {
  std::string name;
  std::string note;
  std::vector<double> milliseconds;  // one per run
  std::string unavailable;           // why there is no sample; empty: there are
  std::string floor = {};            // the row with what the machine needs for it anyway; empty: there is none
};

// A single number that is no time.
struct BenchFigure {
  std::string name;
  double value = 0;
  std::string unit;
};

// The value below which `share` (0..1) of the samples lie. The samples need not be sorted, and must not be empty.
double Percentile(std::vector<double> samples, double share);

// The first row is what the others are compared with.
std::string RenderComparison(const std::vector<BenchRow>& rows);
std::string RenderTable(const std::vector<BenchRow>& rows, const std::vector<BenchFigure>& figures);
std::string RenderJson(const std::vector<BenchRow>& rows, const std::vector<BenchFigure>& figures);
std::string RenderSvg(const std::vector<BenchRow>& rows);

}  // namespace cella::cli
