// The files of a session as the HTTP routes see them: upload, download by ranges, list, remove. Paths are the client's
// and checked; the tree is the guest's and touched only through os::Directory. Nothing here waits for a guest, and each
// call does a bounded piece of work, so that it may run on the loop or in a pool; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "os/directory.h"
#include "os/pending_file.h"

namespace cella::workspace {

// What may still be written. The file system of a workspace has its own end; this is what the server adds to it.
struct FileQuota {
  uint64_t bytes = UINT64_MAX;
  uint64_t files = UINT64_MAX;
};

struct FileEntry {
  std::string name;  // in its directory
  os::EntryInfo info;
  std::string_view media_type;  // of a regular file, else empty
};

// "file", "directory", "link", "other"
std::string_view ToString(os::EntryType type);

struct FilePage {
  std::vector<FileEntry> entries;
  std::optional<std::string> next;  // pass it as `after` for the rest
  bool complete = true;             // false: the directory holds more than is looked at
};

class Upload {
 public:
  // kExhausted when the quota or the disk is used up. After an error only destroy it: nothing of it remains.
  Status Write(std::string_view chunk);
  // Puts it into place.
  Status Commit();
  uint64_t bytes() const { return bytes_; }

 private:
  friend class WorkspaceFiles;
  Upload(os::PendingFile file, std::string path, os::Directory::IfExists if_exists, uint64_t bytes_allowed)
      : file_(std::move(file)), path_(std::move(path)), if_exists_(if_exists), allowed_(bytes_allowed) {}

  os::PendingFile file_;
  std::string path_;
  os::Directory::IfExists if_exists_;
  uint64_t allowed_;
  uint64_t bytes_ = 0;
};

class Download {
 public:
  uint64_t size() const { return file_.info.size; }  // of the file when it was opened
  int64_t modified_ns() const { return file_.info.modified_ns; }
  std::string_view media_type() const { return media_type_; }

  // The part to read; all of it unless called. kInvalid when it begins behind the end. A length that reaches further
  // than the file is shortened.
  Status SetRange(uint64_t offset, std::optional<uint64_t> length);
  uint64_t offset() const { return begin_; }
  uint64_t length() const { return end_ - begin_; }  // what will be read: the length to announce

  // Up to the size of the buffer; 0 when all that was announced was read, whatever the file has grown to. kClosed when
  // the file has become shorter than announced: the client must not take what it has for the whole.
  Result<size_t> Read(std::span<char> buffer);

 private:
  friend class WorkspaceFiles;
  Download(os::OpenedFile file, std::string path);

  os::OpenedFile file_;
  std::string path_;
  std::string_view media_type_;
  uint64_t begin_ = 0;
  uint64_t end_;
  uint64_t position_ = 0;
};

class WorkspaceFiles {
 public:
  // `seen_as`: the directory's name inside, which links have.
  explicit WorkspaceFiles(os::Directory directory, std::string_view seen_as = "/workspace")
      : directory_(std::move(directory)), seen_as_(seen_as) {}

  const os::Directory& directory() const { return directory_; }

  using IfExists = os::Directory::IfExists;
  struct UploadOptions {
    FileQuota quota{};
    IfExists if_exists = IfExists::kReplace;
    bool executable = false;
    std::optional<uint64_t> announced{};  // the size, where the client told it: refused before a byte is read
  };
  // Makes the directories above it. A file that is there keeps its mode; a link that stays inside is
  // followed, and any other is replaced.
  Result<Upload> StartUpload(const std::string& path, const UploadOptions& options) const;

  Result<Download> StartDownload(const std::string& path) const;

  // Of a link itself.
  Result<FileEntry> Stat(const std::string& path) const;

  // Names behind `after`, at most `limit` (and at most 1000). An empty path is the workspace.
  Result<FilePage> List(const std::string& path, const std::string& after, size_t limit) const;

  Status MakeDirectories(const std::string& path) const;

  enum class Recursive { kNo, kYes };
  // In pieces, with a turn for other tasks between them; when cancelled, what is left stays.
  async::Task<Status> Remove(std::string path, Recursive recursive) const;

 private:
  Result<std::string> Follow(std::string path) const;

  os::Directory directory_;
  std::string seen_as_;
};

}  // namespace cella::workspace
