// What an environment is made from, and the keys by which it is found again. Pure.
#pragma once

#include <string>
#include <vector>

#include "environment/requirement.h"

namespace cella::environment {

// The interpreter that environments rest on.
struct BasePython {
  std::string executable;  // real path, in no virtual environment
  std::string version;     // "3.12.1"
  std::string stamp;       // changes with the file: device, inode, size, time
  // Of the interpreter that packages are for, where it is another one: "3.11.2", "x86_64-manylinux_2_36".
  std::string for_version{};
  std::string for_platform{};
};

struct Request {
  BasePython python;
  std::vector<Requirement> packages;     // sorted
  std::vector<Requirement> constraints;  // sorted
  std::vector<std::string> pinned;       // "name==1 --hash=…"
  std::string index;                     // IndexSettings::Identity
};

// Of the lock that the request was resolved to.
std::string RequestKey(const Request& request);

// Of the directory with these packages. `lock` has one "name==version --hash=…" per package.
std::string ContentKey(const BasePython& python, const std::string& lock);

}  // namespace cella::environment
