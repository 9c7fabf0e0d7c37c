#include "installer/installed_packages.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "environment/requirement.h"

namespace cella::installer {
namespace {

constexpr int kMaxEntries = 20'000;

}  // namespace

std::vector<environment::Package> InstalledPackages(const std::string& prefix, const std::string& version) {
  const std::string minor = version.substr(0, version.find('.', version.find('.') + 1));
  return PackagesIn({fmt::format("{}/local/lib/python{}/dist-packages", prefix, minor),
                     fmt::format("{}/lib/python{}/site-packages", prefix, minor),
                     fmt::format("{}/lib/python3/dist-packages", prefix)});
}

std::vector<environment::Package> PackagesIn(const std::vector<std::string>& sites) {
  std::map<std::string, std::string> found;
  for (const std::string& directory : sites) {
    std::error_code error;
    int count = 0;
    for (std::filesystem::directory_iterator entry(directory, error), end;
         !error && entry != end && count < kMaxEntries; entry.increment(error), ++count) {
      const std::string name = entry->path().filename();
      if (!name.ends_with(".dist-info") && !name.ends_with(".egg-info")) continue;
      const std::string stem = entry->path().stem();
      const size_t dash = stem.find('-');
      if (dash == std::string::npos) continue;
      const std::string package = stem.substr(0, dash),
                        number = stem.substr(dash + 1, stem.find('-', dash + 1) - dash - 1);
      if (!environment::IsPackageName(package) || !environment::IsVersion(number)) continue;
      // The first directory is the first on sys.path.
      found.try_emplace(environment::NormalizeName(package), number);
    }
  }
  std::vector<environment::Package> packages;
  for (auto& [name, number] : found) packages.push_back({name, number});
  return packages;
}

}  // namespace cella::installer
