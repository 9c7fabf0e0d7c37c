// Which packages an operator permits. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "environment/requirement.h"

namespace cella::environment {

struct PackageRules {
  std::vector<std::string> allow;  // normalised names; empty: all
  std::vector<std::string> deny;   // outweighs `allow`

  // kPermission: the package that is not permitted.
  Status Check(const std::vector<Requirement>& packages) const;
  // Of a lock, whose packages were not all asked for by name: only `deny` counts.
  Status CheckLock(std::string_view lock) const;
};

}  // namespace cella::environment
