#include "registry/spill_file.h"

#include <fcntl.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "os/syscalls.h"

namespace cella::registry {

Status SpillFile::Append(std::string_view bytes) {
  if (bytes.empty()) return {};
  int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (size_ == 0 ? O_TRUNC : 0);
  UniqueFd file(open(path_.c_str(), flags, 0600));
  if (!file) return SysErr(errno, "open '{}'", path_);
  // At our own idea of the end, not at the file's: a batch that failed half-way is written over.
  uint64_t end = size_;
  while (!bytes.empty()) {
    ssize_t n =
        os::RetryOnEintr([&] { return pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(end)); });
    if (n <= 0) {
      int error = n < 0 ? errno : ENOSPC;
      (void)(size_ > 0 ? ftruncate(file.get(), static_cast<off_t>(size_)) : unlink(path_.c_str()));
      return SysErr(error, "write '{}'", path_);
    }
    end += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  size_ = end;
  return {};
}

Result<size_t> SpillFile::ReadAt(uint64_t offset, std::span<char> buffer) const {
  if (offset >= size_) return size_t{0};
  buffer = buffer.first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size_ - offset)));
  UniqueFd file(open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return SysErr(errno, "open '{}'", path_);
  size_t done = 0;
  while (done < buffer.size()) {
    ssize_t n = os::RetryOnEintr([&] {
      return pread(file.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    });
    if (n < 0) return SysErr(errno, "read '{}'", path_);
    if (n == 0) return Err(ErrorCode::kInternal, "'{}' is shorter than what was written to it", path_);
    done += static_cast<size_t>(n);
  }
  return done;
}

void SpillFile::Remove() {
  if (size_ > 0) (void)unlink(path_.c_str());
  size_ = 0;
}

}  // namespace cella::registry
