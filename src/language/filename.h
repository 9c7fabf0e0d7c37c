// How the file of a block is called in the workspace.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "language/table.h"

namespace cella::language {

// The name given by a first line "# filename: X", in the comment forms of the language; nullopt: there is none. A
// "#!" or "<?php" line may come before it. The name is as written: see CheckFileName.
std::optional<std::string> FilenameComment(const Language& language, std::string_view code);

// The name without "." components and doubled slashes; kInvalid for everything that could lie outside the workspace
// (absolute, ".." components) or cannot be a file (empty, trailing slash, NUL, too long).
Result<std::string> CheckFileName(std::string_view name);

// "tmp_code_<sha256>_<8 random hex digits>.<ext>"; for a Java file "<Class>.java".
std::string GeneratedFileName(const Language& language, std::string_view code);

}  // namespace cella::language
