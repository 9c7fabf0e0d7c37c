// Which packages an operator permits. Pure.
#pragma once

#include <string>
#include <vector>

#include "environment/requirement.h"

namespace cella::environment {

struct PackageRules {
  std::vector<std::string> allow;  // normalised names; empty: all
  std::vector<std::string> deny;   // outweighs `allow`

  // kPermission: the package that is not permitted.
  Status Check(const std::vector<Requirement>& packages) const;
};

}  // namespace cella::environment
