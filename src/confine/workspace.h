// The files of a run: what goes in before it starts, what changed after it ended. Everything is read and written
// through os::Directory, since the guest controls the tree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "language/plan.h"
#include "os/directory.h"
#include "run/output.h"

namespace cella::confine {

// A working directory is checked before anything is built: the sentence is better than a failed mount. Empty: none.
Status CheckWorkdir(const std::string& path);

// What `after` has that `before` had not, and the other way round. Both are sorted by path.
std::vector<FileChange> CompareListings(const os::DirectoryListing& before, const os::DirectoryListing& after);

class Workspace {
 public:
  explicit Workspace(os::Directory directory) : directory_(std::move(directory)) {}

  const os::Directory& directory() const { return directory_; }

  // Writes input files.
  Status WriteInputs(const std::vector<InputFile>& files);
  // Writes input files and the code. A file that the code itself did not name is taken away again by RemoveCode.
  // `runs_file`: there is no code, and the file is there already.
  Status Fill(const std::vector<InputFile>& files, const language::Plan& plan, bool runs_file = false);

  // Where changed files go. Opened before the run: afterwards the guest may have put a link in its place.
  Status OpenOut(const std::string& path, uint64_t byte_limit);

  // What is there before the run, to compare with.
  void Remember() { before_ = directory_.List(kMaxEntries); }

  // Emits a file event per change and copies changed files out.
  async::Task<Status> Report(run::EventSink& sink);

  // Removes a code file that we put into a host directory.
  void RemoveCode();

 private:
  static constexpr size_t kMaxEntries = 10'000;

  os::Directory directory_;
  os::DirectoryListing before_;
  std::string code_to_remove_;
  std::optional<os::Directory> out_;
  uint64_t out_bytes_left_ = 0;
};

}  // namespace cella::confine
