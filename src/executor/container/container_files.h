// The files of a run in a container, by way of its agent: what confine::Workspace is for a directory of the host. Lives
// on the loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "cella/run.h"
#include "executor/container/bridge.h"
#include "language/plan.h"
#include "os/directory.h"
#include "run/output.h"

namespace cella::executor {

class ContainerFiles {
 public:
  // The bridge outlives this.
  explicit ContainerFiles(AgentBridge& bridge) : bridge_(bridge) {}

  // Writes input files and the code. A file that the code itself did not name is removed again by RemoveCode.
  async::Task<Status> Fill(const std::vector<InputFile>& files, const language::Plan& plan);
  // Where changed files go, on the host.
  Status OpenOut(const std::string& path, uint64_t byte_limit);
  async::Task<Status> Remember();
  // Emits an event per change, and copies changed files out.
  async::Task<Status> Report(run::EventSink& sink);
  async::Task<void> RemoveCode();
  // A new file that only the guest reads.
  async::Task<Status> WriteNew(std::string path, std::string_view content) {
    return Write(std::move(path), content, false, 0600);
  }
  // Best effort.
  async::Task<void> Remove(std::vector<std::string> paths);

 private:
  async::Task<Status> Write(std::string path, std::string_view content, bool replaces, uint32_t mode);
  async::Task<Result<os::DirectoryListing>> List();
  async::Task<Status> CopyOut(FileChange& change);

  AgentBridge& bridge_;
  os::DirectoryListing before_;
  std::string code_to_remove_;
  std::optional<os::Directory> out_;
  uint64_t out_bytes_left_ = 0;
};

}  // namespace cella::executor
