// What outlives sessions, as plain files of one directory: artifacts/a/b.json, workflows/NAME.py, requirements.txt.
// Beside them, in .cella, are an index (descriptions, kinds, origins, search) and files that are being written. Several
// processes may use one directory; a file takes its place all at once, and what was acknowledged survives a crash.
//
// Blocks on the file system; any thread. Names and contents come from guests and clients. No path is followed through a
// symbolic link or out of the directory, and no content is executed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/directory.h"
#include "store/database.h"

namespace cella::storage {

struct Bounds {
  uint64_t bytes = uint64_t{1} << 30;  // of all artifacts and workflows
  uint64_t files = 10'000;
  uint64_t artifact_bytes = uint64_t{64} << 20;
};

inline constexpr size_t kMaxSource = size_t{64} << 10;
inline constexpr size_t kMaxWorkflows = 500;
inline constexpr size_t kMaxDescription = 512;
inline constexpr size_t kMaxMetadata = size_t{3} << 10;

enum class Kind { kText, kBytes, kJson };
std::string_view ToString(Kind kind);  // "text", "bytes", "json"
std::optional<Kind> ParseKind(std::string_view word);

enum class Origin {
  kCaller,  // a client or a person
  kJail,    // code in a jail
};
std::string_view ToString(Origin origin);  // "caller", "jail"

struct Artifact {
  std::string name;
  Kind kind = Kind::kBytes;
  Origin origin = Origin::kCaller;
  uint64_t size = 0;
  std::string description;
  std::string metadata = "{}";  // JSON text of an object
  int64_t created_ms = 0;
  int64_t updated_ms = 0;
};

struct ArtifactPage {
  std::vector<Artifact> artifacts;
  bool more = false;
};

struct LoadedArtifact {
  Artifact info;
  UniqueFd file;  // at its beginning
};

struct Workflow {
  std::string name;
  std::string description;
  std::string source;
  std::string sha256;
  Origin origin = Origin::kCaller;
  bool approved = true;  // it may run without a jail
};

struct LeftOut {
  std::string file;
  std::string why;
};

struct Workflows {
  std::vector<Workflow> found;  // without their sources
  std::vector<LeftOut> left_out;
};

// What can be known of the source of a workflow without executing it.
struct SourceFacts {
  std::string problem;      // why it is no workflow: it does not parse, or has no `async def run`; empty: it is one
  std::string description;  // of its documentation string
};
// For each source. Never executes one. An Error: they cannot be looked at.
using CheckSources = std::function<Result<std::vector<SourceFacts>>(std::span<const std::string>)>;

class FileStorage {
 public:
  // Makes the directory and those above it. `path` is a real path. Without `check` no workflow can be created.
  static Result<std::unique_ptr<FileStorage>> Open(const std::string& path, const Bounds& bounds, CheckSources check);

  const std::string& path() const { return path_; }
  const Bounds& bounds() const { return bounds_; }

  struct Details {
    Kind kind = Kind::kBytes;
    Origin origin = Origin::kCaller;
    std::string description{};
    std::string metadata{"{}"};
  };

  // The content of an artifact that arrives in pieces. It is nowhere unless it is committed.
  class Upload {
   public:
    Upload(Upload&& other) noexcept = default;
    Upload& operator=(Upload&&) = delete;
    ~Upload();

    const std::string& name() const { return name_; }
    uint64_t size() const { return size_; }
    // kExhausted: an artifact may not be so large.
    Status Write(std::string_view bytes);
    // When it returns, the artifact is on the disk. kInvalid: the content is not of that kind. kExhausted: the storage
    // is full. Once only.
    Result<Artifact> Commit(const Details& details);

   private:
    friend class FileStorage;
    Upload(FileStorage& storage, std::string name, std::string part, UniqueFd file);

    FileStorage* storage_;
    std::string name_;
    std::string part_;  // its name in .cella/tmp; empty: it is there no more
    UniqueFd file_;
    uint64_t size_ = 0;
  };
  // The upload must not outlive the storage.
  Result<Upload> BeginSave(const std::string& name);
  Result<Artifact> Save(const std::string& name, std::string_view content, const Details& details);

  // kNotFound: there is none.
  Result<LoadedArtifact> Load(const std::string& name);
  Result<std::optional<Artifact>> Get(const std::string& name);
  // The first `limit` of those behind `after`, by name; fewer where they are large. Files that people put there are
  // listed too.
  Result<ArtifactPage> List(const std::string& after, size_t limit);
  // False: there is none.
  Result<bool> Delete(const std::string& name);
  // Where the file is on the host.
  Result<std::string> PathOf(const std::string& name);

  // kInvalid: the source is no workflow; it is not stored.
  Result<Workflow> CreateWorkflow(const std::string& name, const std::string& source, const std::string& description,
                                  Origin origin);
  Result<std::optional<Workflow>> GetWorkflow(const std::string& name);
  Result<Workflows> ListWorkflows();
  // The best first: those with any of the words.
  Result<Workflows> SearchWorkflows(std::string_view query, size_t limit);
  Result<bool> DeleteWorkflow(const std::string& name);
  // From now on this very source may run without a jail. kNotFound: there is none, or another one by now.
  Result<Workflow> ApproveWorkflow(const std::string& name, const std::string& sha256);

 private:
  struct FoundFile;

  FileStorage(std::string path, const Bounds& bounds, CheckSources check, os::Directory directory,
              store::Database index);

  // Of files that are being written (pending.cc).
  Result<UniqueFd> MakePart(const std::string& part) const;
  void DropPart(const std::string& part) const;
  // Under the lock of the index. The directory of the file, so that it can be synchronised.
  Result<UniqueFd> Place(const std::string& part, const std::string& path) const;
  void SweepParts() const;

  // Within a transaction: whether `size` bytes in the place of `replaced` fit.
  Status CheckRoom(std::optional<uint64_t> replaced, uint64_t size);
  Result<std::optional<Artifact>> Row(const std::string& name, int64_t* changed_ns);
  Status PutRow(const Artifact& artifact, int64_t changed_ns);
  Result<Artifact> CommitUpload(Upload& upload, const Details& details);
  // What a file is that the index does not know, or knows otherwise.
  Artifact Derive(const std::string& name, const os::EntryInfo& info, int fd, std::optional<Artifact> known) const;
  Status Reconcile();
  void TidyLog();

  // workflows.cc
  Result<std::vector<FoundFile>> ChangedFiles(std::vector<LeftOut>* left_out, std::vector<std::string>* gone);
  Result<std::optional<FoundFile>> ReadSource(const std::string& name) const;
  Status Check(std::vector<FoundFile>* files);
  Status Refresh(std::vector<LeftOut>* left_out);
  Status PutWorkflow(const FoundFile& file, std::string_view description, Origin origin);
  Status DropWorkflow(const std::string& name);
  Result<std::vector<Workflow>> Read(std::string_view sql, std::string_view text, size_t limit);

  const std::string path_;
  const Bounds bounds_;
  const CheckSources check_;
  const os::Directory directory_;
  std::mutex mutex_;
  store::Database index_;  // under the mutex
};

}  // namespace cella::storage
