// Virtual environments as files: a fresh one of a few files, a copy of a finished one, and packages that are added to
// an existing one. Nothing is executed. Blocks on the file system; no guest may write to the directories yet.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cella::executor {

// "3.11" of "3.11.7".
std::string MinorVersion(const std::string& version);

// A virtual environment of `python` (a base interpreter of version `version`) at `directory`, which does not exist yet.
// Its modules are found in `sites`, in this order, after its own.
Status MakeFreshVenv(const std::string& directory, const std::string& python, const std::string& version,
                     const std::vector<std::string>& sites);

// site-packages of a virtual environment; empty: it has none.
std::string SitePackagesOf(const std::string& venv);

// Names of the *.dist-info directories in a directory of packages.
std::vector<std::string> DistInfosOf(const std::string& site);
// Of "name-1.2.dist-info": "name", in the form in which names are compared.
std::string NameOfDistInfo(const std::string& directory);
// The paths of a RECORD, relative to the directory of packages.
std::vector<std::string> ReadRecord(const std::string& text);

// Whether `ipykernel` can be imported from one of the directories.
bool HasIpykernel(const std::vector<std::string>& sites);

// Copies the finished environment to `to`, which does not exist or is an empty directory. On failure nothing is left.
Status CopyVenv(const std::string& from, const std::string& to);

// Copies the packages of `from` that `to` does not have. kInvalid: they are of different Python versions.
Status CopyMissingPackages(const std::string& from, const std::string& to);

}  // namespace cella::executor
