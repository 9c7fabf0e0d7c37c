// Everything below a directory of a guest, one entry at a time, without following links: directories before what is in
// them, names in order. Bounded in entries, depth and memory. The guest may change the tree meanwhile: what was there
// when its directory was read is told, if it still is. Any thread, one at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/directory.h"

namespace cella::os {

struct WalkBounds {
  size_t entries = 100'000;
  size_t name_bytes = size_t{8} << 20;  // of the directories that are open, at once
};

struct WalkEntry {
  std::string path;  // relative to where the walk began
  EntryInfo info;
};

class TreeWalk {
 public:
  // Nothing: that was all.
  std::optional<WalkEntry> Next();
  // The file that Next gave last.
  Result<OpenedFile> Open() const;
  // False: something was left out, for one of the bounds or because it could not be read.
  bool complete() const { return complete_; }

 private:
  friend class Directory;
  struct Level {
    UniqueFd dir;
    std::string prefix;
    std::vector<std::string> names;
    size_t next = 0;
    size_t name_bytes = 0;
  };

  TreeWalk(UniqueFd top, std::optional<FsIdentity> identity, WalkBounds bounds);
  void Descend(UniqueFd dir, std::string prefix);

  std::optional<FsIdentity> identity_;
  WalkBounds bounds_;
  std::vector<Level> levels_;
  size_t seen_ = 0;
  size_t name_bytes_ = 0;
  bool enter_ = false;  // the last entry was a directory: its content comes next
  bool complete_ = true;
};

}  // namespace cella::os
