#include "executor/container/programs_archive.h"

#include <filesystem>

#include "os/io.h"
#include "workspace/tar_writer.h"

namespace cella::executor {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

}  // namespace

Result<std::string> ArchivePrograms(const std::string& directory) {
  namespace fs = std::filesystem;
  workspace::TarWriter writer;
  std::string archive;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = fs::path(entry->path()).lexically_relative(directory);
    if (entry->is_directory(error)) {
      writer.AddDirectory(path, 0);
    } else if (entry->is_regular_file(error)) {
      TRY(std::string content, os::ReadFile(entry->path(), kMostBytes));
      const bool executable = (entry->status(error).permissions() & fs::perms::owner_exec) != fs::perms::none;
      writer.BeginFile({.path = path, .size = content.size(), .modified_s = 0, .executable = executable});
      writer.Write(content);
    }
    archive += writer.Take();
    if (archive.size() > kMostBytes) return Err(ErrorCode::kExhausted, "'{}' is too large", directory);
  }
  if (error) return SysErr(error.value(), "read '{}'", directory);
  writer.Finish();
  return archive + writer.Take();
}

}  // namespace cella::executor
