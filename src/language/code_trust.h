// Whether a zygote may load code from directories of the host. A zygote runs what its environment holds before any
// guest exists, and every session of the environment is a copy of it. Hence only root and the caller may have
// written that code, and no guest. Safe from any thread; blocks on the file system.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace cella::language {

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  // When it was made, in nanoseconds, because numbers of removed files are given to others. Zero: the file system does
  // not know.
  int64_t born = 0;

  auto operator<=>(const FileId&) const = default;
};

// The directories that guests of this process may write to, or could at some time. Directories are known by device and
// inode, because bind mounts and links give one directory several paths.
class GuestDirectories {
 public:
  // `record`: a directory of the caller's own, in whose file "guest-directories" the processes of the caller keep what
  // they add. Empty: none.
  explicit GuestDirectories(std::string record = "") : record_(std::move(record)) {}

  // Real paths. A directory that does not exist is remembered by its path. Writes to the record before it returns.
  void Add(std::span<const std::string> paths);
  // To add these would change nothing.
  bool Know(std::span<const std::string> paths) const;

  struct Entry {
    std::string path;
    FileId id;  // when it was added; zero: it did not exist

    auto operator<=>(const Entry&) const = default;
  };
  struct Snapshot {
    std::vector<Entry> entries;
    bool is_complete = true;  // false: there were too many to remember
    uint64_t version = 0;     // grows with each new entry
  };
  Snapshot Take() const;
  // And those of the record, which other processes of the caller gave to guests: incomplete if there is no record.
  Snapshot TakeAll() const;
  uint64_t version() const;

 private:
  const std::string record_;
  mutable std::mutex mutex_;
  std::set<Entry> entries_;
  bool is_complete_ = true;
  uint64_t version_ = 0;
};

// What a zygote would load. What does not exist is skipped, but the way to it counts.
struct CodePlaces {
  std::vector<std::string> places{};       // only they, and the way to them
  std::vector<std::string> libraries{};    // and their entries
  std::vector<std::string> directories{};  // searched for modules: and all that lies below
};

enum class Below {
  kIsRead,
  kIsKnown,  // it was read before, and since then only the directories of guests have changed
};

// Why the code must not be loaded, for people; empty: it may. It names no path of the host.
std::string WhyUntrusted(const CodePlaces& code, const GuestDirectories::Snapshot& guests,
                         Below below = Below::kIsRead);

}  // namespace cella::language
