// The files of a run: what goes in before it starts, what changed after it ended. Everything is read and written
// through os::Directory, since the guest controls the tree. Lives on the loop. What could hold the loop (files of the
// host, large files, many entries) is done on a pool.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "base/result.h"
#include "cella/policy.h"
#include "language/plan.h"
#include "os/directory.h"
#include "run/output.h"

namespace cella::confine {

// A working directory is checked before anything is built: the sentence is better than a failed mount. Empty: none.
Status CheckWorkdir(const std::string& path);

// What `after` has that `before` had not, and the other way round. Both are sorted by path.
std::vector<FileChange> CompareListings(const os::DirectoryListing& before, const os::DirectoryListing& after);

// Where the files of a workspace are: files of the host may be on a disk or a network that is slow.
enum class FilesOf { kGuest, kHost };
FilesOf WhoseFiles(const Policy& policy);

class Workspace {
 public:
  Workspace(os::Directory directory, FilesOf whose, async::BlockingPool& pool)
      : directory_(std::move(directory)), whose_(whose), pool_(&pool) {}

  const os::Directory& directory() const { return directory_; }

  // Writes input files.
  async::Task<Status> WriteInputs(const std::vector<InputFile>& files);
  // Writes input files and the code. A file that the code itself did not name is taken away again by RemoveCode.
  // `runs_file`: there is no code, and the file is there already.
  async::Task<Status> Fill(const std::vector<InputFile>& files, const language::Plan& plan, bool runs_file = false);

  // Where changed files go. Opened before the run: afterwards the guest may have put a link in its place.
  async::Task<Status> OpenOut(const std::string& path, uint64_t byte_limit);

  // What is there before the run, to compare with.
  async::Task<Status> Remember();

  // Emits a file event per change and copies changed files out.
  async::Task<Status> Report(run::EventSink& sink);

  // Removes a code file that we put into a host directory.
  void RemoveCode();

 private:
  Status WriteNow(const std::vector<InputFile>& files);
  Status FillNow(const std::vector<InputFile>& files, const language::Plan& plan, bool runs_file);
  async::Task<Result<os::DirectoryListing>> List();
  template <typename Work>
  async::Task<Status> Do(size_t bytes, size_t files, Work work);

  os::Directory directory_;
  FilesOf whose_;
  async::BlockingPool* pool_;
  os::DirectoryListing before_;
  std::string code_to_remove_;
  std::optional<os::Directory> out_;
  uint64_t out_bytes_left_ = 0;
};

}  // namespace cella::confine
