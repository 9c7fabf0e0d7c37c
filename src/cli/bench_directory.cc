#include "cli/bench_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace cella::cli {

Result<BenchDirectory> BenchDirectory::Make() {
  std::error_code error;
  std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) return SysErr(error.value(), "the directory for temporary files (TMPDIR)");
  std::string path = parent / "cella-bench-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return SysErr(errno, "make a directory '{}'", path);
  return BenchDirectory(std::move(path));
}

BenchDirectory::BenchDirectory(BenchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

BenchDirectory::~BenchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace cella::cli
