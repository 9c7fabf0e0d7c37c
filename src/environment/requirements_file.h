// requirements.txt as Cella accepts it: requirements, comments, continued lines, hashes, and -r and -c of files below
// the same directory. Options, URLs and paths are refused by name and line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "environment/requirement.h"

namespace cella::environment {

struct RequirementsFile {
  std::vector<Requirement> packages;
  std::vector<Requirement> constraints;  // of -c
  // "--hash=sha256:…" of each package that has some, in the form that an installer reads: "name==1 --hash=…"; empty:
  // none has.
  std::vector<std::string> pinned;
};

// The text of a file by its path relative to the first one's directory.
using ReadText = std::function<Result<std::string>(const std::string& path)>;

Result<RequirementsFile> ParseRequirementsFile(const std::string& name, const ReadText& read);

// Of the host's file system; the included files lie below the directory of `path`.
Result<RequirementsFile> ReadRequirementsFile(const std::string& path);

}  // namespace cella::environment
