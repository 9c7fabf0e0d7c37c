// Packages that a session adds to a virtual environment which is kept: files of the session's layer, copied. The kernel
// may write there at the same time, so no path is followed out of the environment. Blocks on the file system.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace cella::executor {

// Layers are directories of wheels, as the installer makes them; empty: none.
struct VenvChange {
  std::string venv;
  std::string before;              // what the session added up to now
  std::string after;               // what it adds from now on
  std::set<std::string> own = {};  // names of packages that the environment had before the session
};

// Names of the packages of a virtual environment, in the form in which VenvChange has them.
std::set<std::string> PackageNamesOf(const std::string& venv);

// Installs the packages of `after` that are not there, each instead of another version, and removes those that are only
// in `before`. A package that the environment had stays, in the version of the layer. kInvalid: `venv` has no
// directory of packages. After another Error a package may be incomplete; the next change installs it again.
Status ChangePackages(const VenvChange& change);

}  // namespace cella::executor
