// A workspace as a tar archive, in and out, piece by piece: what the archive route of the server uses. The tree is the
// guest's, and it may be at work in it meanwhile; the archive that comes in is the client's, and may be hostile. Each
// call does a bounded piece of work; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/directory.h"
#include "os/pending_file.h"
#include "os/tree_walk.h"
#include "workspace/files.h"
#include "workspace/tar_reader.h"
#include "workspace/tar_writer.h"

namespace cella::workspace {

// What was left out or changed, told to the client: the first ones by name, all of them counted.
struct ArchiveNotes {
  static constexpr size_t kMaxNamed = 100;
  std::vector<std::string> named;  // "'a/link': symbolic link"
  uint64_t count = 0;

  void Add(std::string_view path, std::string_view what);
};

// Writes what is in an archive into a workspace. A file appears when all of it is there. After an error the files
// before the bad entry stay.
class ArchiveIn {
 public:
  struct Options {
    std::string into{};  // a directory of the workspace, made where missing; empty: the workspace itself
    FileQuota quota{};
    TarLinks links = TarLinks::kRefuse;
  };
  // The directory outlives this.
  static Result<ArchiveIn> Start(const os::Directory& directory, Options options);

  Status Feed(std::string_view bytes);
  // After the last byte.
  Status Finish();

  uint64_t files() const { return files_; }
  uint64_t bytes() const { return bytes_; }
  const ArchiveNotes& notes() const { return notes_; }

 private:
  ArchiveIn(const os::Directory& directory, Options options);
  Status Handle(const TarEvent& event);
  Status StartFile(const TarFile& file);
  Status Count(const std::string& path);
  std::unexpected<Error> Explain(Error error) const;

  const os::Directory* directory_;
  Options options_;
  TarReader reader_;
  std::optional<os::PendingFile> pending_;
  TarFile file_;  // the one that is pending
  uint64_t files_ = 0;
  uint64_t made_ = 0;  // files and directories
  uint64_t bytes_ = 0;
  ArchiveNotes notes_;
};

class ArchiveOut {
 public:
  struct Bounds {
    size_t entries = 100'000;
    uint64_t bytes = uint64_t{8} << 30;  // of content; holes count, since an archive has none
  };
  static Result<ArchiveOut> Start(const os::Directory& directory, const std::string& path, Bounds bounds);

  // About 64 KiB, or nothing for now (a guest can make many entries that are left out); no value at the end.
  std::optional<std::string> Read();
  const ArchiveNotes& notes() const { return notes_; }
  // False at the end: there was more than the bounds allow, or than could be read.
  bool complete() const { return complete_ && walk_.complete(); }

 private:
  ArchiveOut(os::TreeWalk walk, Bounds bounds) : walk_(std::move(walk)), bounds_(bounds) {}
  void NextEntry();
  void ReadContent();

  os::TreeWalk walk_;
  Bounds bounds_;
  TarWriter writer_;
  os::OpenedFile file_;  // that is being read
  std::string path_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  bool complete_ = true;
  ArchiveNotes notes_;
};

}  // namespace cella::workspace
