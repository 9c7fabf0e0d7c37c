#include "os/tree_walk.h"

#include <limits.h>

#include <algorithm>

#include "os/beneath.h"
#include "os/syscalls.h"

namespace cella::os {

TreeWalk::TreeWalk(UniqueFd top, std::optional<FsIdentity> identity, WalkBounds bounds)
    : identity_(identity), bounds_(bounds) {
  Descend(std::move(top), "");
}

void TreeWalk::Descend(UniqueFd dir, std::string prefix) {
  Level level{std::move(dir), std::move(prefix), {}};
  bool read = ForEachName(level.dir.get(), PartFiles::kHide, [&](const char* entry) {
    std::string name = entry;
    if (level.prefix.size() + name.size() >= PATH_MAX) {
      complete_ = false;
      return true;
    }
    level.name_bytes += sizeof(std::string) + name.size();
    if (++seen_ > bounds_.entries || name_bytes_ + level.name_bytes > bounds_.name_bytes) {
      complete_ = false;
      return false;
    }
    level.names.push_back(std::move(name));
    return true;
  });
  if (!read) complete_ = false;
  std::ranges::sort(level.names);
  name_bytes_ += level.name_bytes;
  levels_.push_back(std::move(level));
}

std::optional<WalkEntry> TreeWalk::Next() {
  ScopedFsIdentity identity(identity_);
  if (std::exchange(enter_, false)) {
    Level& level = levels_.back();
    const std::string& name = level.names[level.next - 1];
    UniqueFd child;
    if (levels_.size() < static_cast<size_t>(kMaxDepth)) {
      child = OpenBeneath(level.dir.get(), name.c_str(), O_RDONLY | O_DIRECTORY);
    }
    if (child) {
      Descend(std::move(child), level.prefix + name + "/");
    } else {
      complete_ = false;
    }
  }
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (level.next == level.names.size()) {
      name_bytes_ -= level.name_bytes;
      levels_.pop_back();
      continue;
    }
    const std::string& name = level.names[level.next++];
    struct stat info;
    if (fstatat(level.dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) continue;  // gone meanwhile
    enter_ = S_ISDIR(info.st_mode);
    return WalkEntry{level.prefix + name, InfoOf(info)};
  }
  return std::nullopt;
}

Result<OpenedFile> TreeWalk::Open() const {
  if (levels_.empty() || levels_.back().next == 0) return Err(ErrorCode::kInternal, "no entry to open");
  ScopedFsIdentity identity(identity_);
  const Level& level = levels_.back();
  const std::string& name = level.names[level.next - 1];
  // Not blocking: it may have become a FIFO meanwhile.
  UniqueFd file = OpenBeneath(level.dir.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return NotInside(errno, level.prefix + name);
  struct stat info;
  if (fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a regular file", level.prefix + name);
  }
  return OpenedFile{std::move(file), InfoOf(info)};
}

}  // namespace cella::os
