#include "environment/allow_list.h"

#include <algorithm>

namespace cella::environment {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Status PackageRules::Check(const std::vector<Requirement>& packages) const {
  for (const Requirement& package : packages) {
    const bool denied = Contains(deny, package.name);
    if (!denied && (allow.empty() || Contains(allow, package.name))) continue;
    return Err(ErrorCode::kPermission, "the operator does not permit the package '{}'{}", package.name,
               denied ? " (it is on the deny-list)" : " (it is not on the allow-list)");
  }
  return {};
}

Status PackageRules::CheckLock(std::string_view lock) const {
  while (!deny.empty() && !lock.empty()) {
    const std::string_view line = lock.substr(0, lock.find('\n'));
    lock.remove_prefix(std::min(lock.size(), line.size() + 1));
    const std::string name = NormalizeName(line.substr(0, line.find("==")));
    if (!Contains(deny, name)) continue;
    return Err(ErrorCode::kPermission,
               "the operator does not permit the package '{}' (it is on the deny-list), which the others need", name);
  }
  return {};
}

}  // namespace cella::environment
