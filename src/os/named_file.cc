#include "os/named_file.h"

#include <fcntl.h>

#include "os/io.h"

namespace cella::os {

Result<std::string> ReadNamedFile(const std::string& path, uint64_t limit) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return SysErr(errno, "open '{}'", path);
  auto content = ReadFd(fd.get(), limit);
  if (!content) return std::unexpected(std::move(content.error()).WithContext(fmt::format("'{}'", path)));
  return content;
}

}  // namespace cella::os
