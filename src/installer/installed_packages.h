// What a Python has already, read as data from the directories of its packages. Blocks on the file system.
#pragma once

#include <string>
#include <vector>

#include "environment/store.h"

namespace cella::installer {

// Of directories with packages, of which the first is the first on sys.path. Sorted by name.
std::vector<environment::Package> PackagesIn(const std::vector<std::string>& sites);

// By the names of *.dist-info and *.egg-info below the prefix, in the layouts of CPython and Debian. Sorted by name.
std::vector<environment::Package> InstalledPackages(const std::string& prefix, const std::string& version);

}  // namespace cella::installer
