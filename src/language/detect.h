// Which language a piece of code is in.
#pragma once

#include <string_view>

#include "base/result.h"
#include "language/table.h"

namespace cella::language {

struct DetectRequest {
  std::string_view language;   // as the caller named it; empty: find out
  std::string_view file_name;  // of a file; empty: a string or standard input
  std::string_view code;
};

// By name, else by the file's extension, else by the shebang, else Python (not for a file). The table must outlive the
// answer.
Result<const Language*> Detect(const LanguageTable& table, const DetectRequest& request);

// The program that a first line "#!…" names, without its directory: "python3" for "#!/usr/bin/env -S python3 -u".
// Empty: there is none. A view into the code.
std::string_view ShebangProgram(std::string_view code);

}  // namespace cella::language
