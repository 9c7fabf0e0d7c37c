// A report for people (a table) and for programs (one line of JSON; its shape is in README.md and stays).
#pragma once

#include <string>

#include "doctor/check.h"

namespace cella::doctor {

enum class Colours { kOff, kOn };

struct TableStyle {
  Colours colours = Colours::kOff;
  int width = 100;  // columns that prose is wrapped to; what is to be typed is never broken
};

std::string RenderTable(const Report& report, const TableStyle& style);

std::string RenderJson(const Report& report);

}  // namespace cella::doctor
