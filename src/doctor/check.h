// What the doctor says: one line per mechanism, and the verdict. The words are part of the command's stable output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cella::doctor {

enum class CheckStatus {
  kOk,
  kDegraded,  // the sandbox runs, with less than it could have
  kMissing,   // the sandbox needs it
  kInfo,      // optional and not there, or of no importance here
};

std::string_view ToString(CheckStatus status);

enum class Section { kSandbox, kLimits, kEngines, kLanguages };

struct Check {
  Section section = Section::kSandbox;
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string detail;
  std::string fix = {};  // empty: nothing to do; indented lines are to be typed, the others are prose
};

struct Report {
  bool sandbox = false;  // a guest can be run in the jail
  std::string version;
  std::vector<Check> checks;
};

}  // namespace cella::doctor
