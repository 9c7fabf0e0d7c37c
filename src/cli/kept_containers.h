// For `cella doctor`: containers that were asked to stay, which only people remove.
#pragma once

#include <vector>

#include "doctor/check.h"

namespace cella::cli {

// Of the engine of this machine that the container executor would use. Nothing where none answers: the doctor has its
// own check for that.
std::vector<doctor::Check> FindKeptContainers();

}  // namespace cella::cli
