// Alternatives that are measured by a Python script of ours: it prints lines of a name and a number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace cella::cli {

using Samples = std::map<std::string, std::vector<double>>;

// Starts `python` (as --python names it) on the host. kUnsupported: the script failed, most likely for want of a
// module.
Result<Samples> MeasureByScript(const std::string& python, const char* script,
                                const std::vector<std::string>& arguments);

}  // namespace cella::cli
