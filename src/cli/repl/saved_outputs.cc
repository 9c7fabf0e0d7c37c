#include "cli/repl/saved_outputs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/units.h"
#include "os/io.h"

namespace cella::cli {
Status SavedOutputs::OpenDirectory() {
  if (directory_.empty()) {
    const char* parent = getenv("TMPDIR");
    std::string name = fmt::format("{}/cella-images-XXXXXX", parent != nullptr && *parent != '\0' ? parent : "/tmp");
    if (mkdtemp(name.data()) == nullptr) return SysErr(errno, "make '{}'", name);
    directory_ = std::move(name);
  } else if (mkdir(directory_.c_str(), 0777) < 0 && errno != EEXIST) {
    return SysErr(errno, "make '{}'", directory_);
  }
  fd_ = UniqueFd(open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd_) return SysErr(errno, "open '{}'", directory_);
  return {};
}

Result<std::string> SavedOutputs::Save(std::string_view extension, std::string_view content) {
  if (content.size() > kMaxBytes - bytes_) {
    return Err(ErrorCode::kExhausted, "a session saves {} of displays", FormatByteSize(kMaxBytes));
  }
  if (!fd_) TRY_VOID(OpenDirectory());
  // The directory may be one that guests write to: nothing that is there already is touched or followed.
  UniqueFd file;
  std::string name;
  do {
    name = fmt::format("cella-{}.{}", ++number_, extension);
    file = UniqueFd(openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  } while (!file && errno == EEXIST && number_ < 1'000'000);
  std::string path = fmt::format("{}/{}", directory_, name);
  if (!file) return SysErr(errno, "make '{}'", path);
  bytes_ += content.size();
  auto written = os::WriteAll(file.get(), content);
  if (!written) return std::unexpected(std::move(written.error()).WithContext(fmt::format("'{}'", path)));
  return path;
}

}  // namespace cella::cli
