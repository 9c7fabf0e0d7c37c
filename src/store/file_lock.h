// A file that one process at a time holds; the kernel lets go of it when the process ends, in whatever way.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::store {

class FileLock {
 public:
  // Makes the file if need be; it stays when the lock is gone. kExhausted: another process holds it.
  static Result<FileLock> Take(const std::string& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace cella::store
