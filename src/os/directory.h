// A directory whose content a guest controls, worked on only relative to its descriptor: no path of it is ever followed
// through a symbolic link or out of the directory. Started by root, every operation runs with the file-system identity
// of the guest, never with root's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::os {

struct FsIdentity {
  uid_t uid;
  gid_t gid;
};

struct DirectoryEntry {
  std::string path;  // relative, '/' separated
  uint64_t size = 0;
  int64_t changed_ns = 0;  // ctime: unlike mtime, a program cannot set it back
  uint64_t inode = 0;
};

struct DirectoryListing {
  std::vector<DirectoryEntry> files;  // regular files only, sorted by path
  bool complete = true;
};

class Directory {
 public:
  // Without an identity the caller's own is used.
  Directory(UniqueFd fd, std::optional<FsIdentity> identity) : fd_(std::move(fd)), identity_(identity) {}

  int fd() const { return fd_.get(); }

  enum class IfExists { kReplace, kRefuse };
  // Creates a regular file and the directories above it; for writing.
  Result<UniqueFd> CreateFile(const std::string& path, IfExists if_exists, mode_t mode = 0644) const;
  Status WriteFile(const std::string& path, std::string_view content, IfExists if_exists, mode_t mode = 0644) const;
  Result<UniqueFd> OpenFile(const std::string& path) const;  // for reading; regular files only
  Status RemoveFile(const std::string& path) const;

  // At most `limit` entries of any kind are looked at.
  DirectoryListing List(size_t limit) const;

 private:
  UniqueFd fd_;
  std::optional<FsIdentity> identity_;
};

}  // namespace cella::os
