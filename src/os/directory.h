// A directory whose content a guest controls, worked on only relative to its descriptor: no path of it is ever followed
// through a symbolic link or out of the directory. Started by root, every operation runs with the file-system identity
// of the guest, never with root's. Any thread; each call does a bounded piece of work.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/fs_identity.h"

namespace cella::os {

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

enum class EntryType { kFile, kDirectory, kLink, kOther };

struct EntryInfo {
  EntryType type = EntryType::kOther;
  uint64_t size = 0;        // of a regular file
  int64_t modified_ns = 0;  // mtime: the guest may have set it to anything
  mode_t mode = 0;
};

struct ChildEntry {
  std::string name;
  EntryInfo info;
};

struct ChildPage {
  std::vector<ChildEntry> entries;  // sorted by name
  std::string last;                 // the name to go on behind; of an entry that may be gone by now
  bool more = false;                // there are names behind it
  bool complete = true;             // false: the directory holds more than is looked at
};

struct OpenedFile {
  UniqueFd fd;
  EntryInfo info;
};

struct SpaceLeft {
  uint64_t bytes = 0;
  uint64_t files = 0;
};

class PendingFile;  // pending_file.h
class TreeWalk;     // tree_walk.h
struct WalkBounds;  // there

class Directory {
 public:
  // Without an identity the caller's own is used.
  Directory(UniqueFd fd, std::optional<FsIdentity> identity) : fd_(std::move(fd)), identity_(identity) {}

  int fd() const { return fd_.get(); }
  // The same directory under another descriptor.
  Result<Directory> Duplicate() const;
  // The mount `name` beside the one that this directory is the root of: in a jail, /tmp beside /workspace. Only for a
  // directory that is such a root; of another, it is what lies beside it.
  Result<Directory> OpenMountBeside(const char* name) const;

  enum class IfExists { kReplace, kRefuse };
  // Creates a regular file and the directories above it; for writing.
  Result<UniqueFd> CreateFile(const std::string& path, IfExists if_exists, mode_t mode = 0644) const;
  Status WriteFile(const std::string& path, std::string_view content, IfExists if_exists, mode_t mode = 0644) const;
  // Creates the directories above `path`, and beside it a file that takes its place all at once. It has exactly that
  // mode, without set-id bits.
  Result<PendingFile> CreatePending(const std::string& path, mode_t mode = 0644) const;

  // For reading; regular files only. Neither ever waits, whatever the guest put there.
  Result<UniqueFd> OpenFile(const std::string& path) const;
  Result<OpenedFile> OpenWithInfo(const std::string& path) const;
  // Of the entry itself, if it is a link. An empty path is the directory.
  Result<EntryInfo> Stat(const std::string& path) const;
  // The text of a symbolic link, which the guest chose.
  Result<std::string> ReadLink(const std::string& path) const;

  // A directory and those above it; one that is there already is fine.
  Status MakeDirectories(const std::string& path) const;

  Status RemoveFile(const std::string& path) const;
  // A file or an empty directory.
  Status Remove(const std::string& path) const;
  enum class Removed { kAll, kPart };
  // A file or a whole tree. kPart: `at_most` entries were removed (or the guest made new ones meanwhile), call again.
  Result<Removed> RemoveTree(const std::string& path, size_t at_most) const;

  // At most `limit` entries of any kind are looked at.
  DirectoryListing List(size_t limit) const;
  // One directory: the first `limit` names behind `after`, in order of their bytes. An empty path is this one.
  Result<ChildPage> ListChildren(const std::string& path, const std::string& after, size_t limit) const;
  // Everything below `path`, one entry at a time.
  Result<TreeWalk> Walk(const std::string& path, WalkBounds bounds) const;

  // Of the file system: a workspace has one of its own, a directory of the host shares it with others.
  Result<SpaceLeft> Space() const;

 private:
  UniqueFd fd_;
  std::optional<FsIdentity> identity_;
};

}  // namespace cella::os
