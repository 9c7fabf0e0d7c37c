#include "confine/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "os/io.h"
#include "os/syscalls.h"

namespace cella::confine {
namespace {

constexpr size_t kMaxEntries = 10'000;
// Up to this much is read or written at once on the loop, since the change of threads would take longer.
constexpr size_t kQuickBytes = 64 << 10;
constexpr size_t kQuickEntries = 64;

// Copies data and keeps holes; a file may be much larger than what it holds. An error is ours (the target's disk is
// full); what the guest's file is to blame for is in *not_copied.
Status CopyOut(const os::Directory& from, const os::Directory& to, const std::string& path, uint64_t* bytes_left,
               std::string* not_copied) {
  auto source_or = from.OpenFile(path);
  if (!source_or) {
    *not_copied = source_or.error().message;
    return {};
  }
  UniqueFd source = std::move(*source_or);
  struct stat info;
  if (fstat(source.get(), &info) < 0) return SysErr(errno, "read '{}'", path);
  auto target_or = to.CreateFile(path, os::Directory::IfExists::kReplace, (info.st_mode & 0100) != 0 ? 0755 : 0644);
  if (!target_or) {
    // A directory or something else of that name is in the way: the guest chose the name.
    int error = target_or.error().sys_errno;
    if (error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS || error == EACCES) {
      return std::unexpected(std::move(target_or.error()).WithContext("copy out"));
    }
    *not_copied = target_or.error().message;
    return {};
  }
  UniqueFd target = std::move(*target_or);
  std::array<char, 65536> buffer;
  off_t position = 0;
  for (;;) {
    off_t data = lseek(source.get(), position, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // only a hole is left
    off_t end = data < 0 ? -1 : lseek(source.get(), data, SEEK_HOLE);
    if (end < 0 || lseek(source.get(), data, SEEK_SET) < 0 || lseek(target.get(), data, SEEK_SET) < 0) {
      return SysErr(errno, "copy '{}' out", path);
    }
    for (position = data; position < end;) {
      size_t wanted = std::min<size_t>(buffer.size(), static_cast<size_t>(end - position));
      ssize_t n = os::RetryOnEintr([&] { return read(source.get(), buffer.data(), wanted); });
      if (n < 0) return SysErr(errno, "read '{}'", path);
      if (n == 0) break;
      if (static_cast<uint64_t>(n) > *bytes_left) {
        *not_copied = "the files to copy out are larger than the disk limit (--disk)";
        return {};
      }
      *bytes_left -= static_cast<uint64_t>(n);
      auto written = os::WriteAll(target.get(), {buffer.data(), static_cast<size_t>(n)});
      if (!written) return std::unexpected(std::move(written.error()).WithContext(fmt::format("copy '{}' out", path)));
      position += n;
    }
    if (position < end) break;  // it shrank while we read
  }
  if (ftruncate(target.get(), std::max(position, info.st_size)) < 0) return SysErr(errno, "copy '{}' out", path);
  return {};
}

}  // namespace

std::vector<FileChange> CompareListings(const os::DirectoryListing& before, const os::DirectoryListing& after) {
  std::vector<FileChange> changes;
  auto old = before.files.begin();
  auto now = after.files.begin();
  while (old != before.files.end() || now != after.files.end()) {
    if (now == after.files.end() || (old != before.files.end() && old->path < now->path)) {
      changes.push_back({old->path, 0, FileChange::Kind::kDeleted, ""});
      ++old;
    } else if (old == before.files.end() || now->path < old->path) {
      changes.push_back({now->path, now->size, FileChange::Kind::kCreated, ""});
      ++now;
    } else {
      if (old->changed_ns != now->changed_ns || old->inode != now->inode || old->size != now->size) {
        changes.push_back({now->path, now->size, FileChange::Kind::kModified, ""});
      }
      ++old;
      ++now;
    }
  }
  return changes;
}

FilesOf WhoseFiles(const Policy& policy) { return policy.workdir.empty() ? FilesOf::kGuest : FilesOf::kHost; }

Status CheckWorkdir(const std::string& path) {
  if (path.empty()) return {};
  struct stat info;
  if (stat(path.c_str(), &info) < 0) return SysErr(errno, "workdir '{}'", path);
  if (!S_ISDIR(info.st_mode)) return Err(ErrorCode::kInvalid, "workdir '{}' is not a directory", path);
  if (access(path.c_str(), R_OK | W_OK | X_OK) < 0) return SysErr(errno, "workdir '{}' is not writable", path);
  return {};
}

template <typename Work>
async::Task<Status> Workspace::Do(size_t bytes, size_t files, Work work) {
  if (whose_ == FilesOf::kGuest && bytes <= kQuickBytes && files <= kQuickEntries) co_return work();
  co_return co_await pool_->Run(std::move(work));
}

async::Task<Status> Workspace::WriteInputs(const std::vector<InputFile>& files) {
  if (files.empty()) co_return Status{};
  size_t bytes = 0;
  for (const InputFile& file : files) bytes += file.content.size();
  auto write = [&] { return WriteNow(files); };
  co_return co_await Do(bytes, files.size(), write);
}

async::Task<Status> Workspace::Fill(const std::vector<InputFile>& files, const language::Plan& plan, bool runs_file) {
  size_t bytes = plan.code.size();
  for (const InputFile& file : files) bytes += file.content.size();
  auto fill = [&] { return FillNow(files, plan, runs_file); };
  co_return co_await Do(bytes, files.size() + 1, fill);
}

Status Workspace::WriteNow(const std::vector<InputFile>& files) {
  for (const InputFile& file : files) {
    const mode_t mode = file.executable ? 0755 : 0644;
    TRY_VOID(directory_.WriteFile(file.name, file.content, os::Directory::IfExists::kReplace, mode));
  }
  return {};
}

Status Workspace::FillNow(const std::vector<InputFile>& files, const language::Plan& plan, bool runs_file) {
  using IfExists = os::Directory::IfExists;
  TRY_VOID(WriteNow(files));
  auto existing = directory_.OpenFile(plan.file_name);
  if (!existing && existing.error().sys_errno != ENOENT) return std::unexpected(std::move(existing.error()));
  if (runs_file) {
    if (existing) return {};
    return Err(ErrorCode::kNotFound, "the workspace has no file '{}': upload it, or send its code", plan.file_name);
  }
  if (existing) {
    // Running a file of the directory itself: it is there already, and must not be written or removed.
    auto content = os::ReadFd(existing->get(), plan.code.size());
    if (content && *content == plan.code) return {};
    if (!plan.named_by_code) {
      return Err(ErrorCode::kInvalid, "the workspace has another file named '{}'", plan.file_name);
    }
    return directory_.WriteFile(plan.file_name, plan.code, IfExists::kReplace);
  }
  if (!plan.named_by_code && !plan.save_only) code_to_remove_ = plan.file_name;
  auto written = directory_.WriteFile(plan.file_name, plan.code, IfExists::kRefuse);
  if (!written) RemoveCode();
  return written;
}

async::Task<Status> Workspace::OpenOut(const std::string& path, uint64_t byte_limit) {
  auto open_directory = [&]() -> Result<UniqueFd> {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return SysErr(error.value(), "create '{}'", path);
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return SysErr(errno, "open '{}'", path);
    return fd;
  };
  auto opened = co_await pool_->Run(open_directory);
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  out_.emplace(std::move(*opened), std::nullopt);
  out_bytes_left_ = byte_limit;
  co_return Status{};
}

async::Task<Result<os::DirectoryListing>> Workspace::List() {
  if (whose_ == FilesOf::kGuest) {
    os::DirectoryListing few = directory_.List(kQuickEntries);
    if (few.complete) co_return few;
  }
  auto list = [&]() -> Result<os::DirectoryListing> { return directory_.List(kMaxEntries); };
  co_return co_await pool_->Run(list);
}

async::Task<Status> Workspace::Remember() {
  auto listed = co_await List();
  if (!listed) co_return std::unexpected(std::move(listed.error()));
  before_ = std::move(*listed);
  co_return Status{};
}

async::Task<Status> Workspace::Report(run::EventSink& sink) {
  auto listed = co_await List();
  CO_TRY(os::DirectoryListing after, std::move(listed));
  for (FileChange& change : CompareListings(before_, after)) {
    bool deleted = change.kind == FileChange::Kind::kDeleted;
    // Past the bound an absent file may just not have been looked at.
    if (deleted && (!after.complete || !before_.complete)) continue;
    if (out_ && !deleted) {
      auto copy = [&] { return CopyOut(directory_, *out_, change.path, &out_bytes_left_, &change.not_copied); };
      auto copied = co_await pool_->Run(copy);
      if (!copied) co_return std::unexpected(std::move(copied.error()));
    }
    Event event = FileEvent{std::move(change)};
    (void)co_await sink.Emit(std::move(event));
  }
  if (!after.complete || !before_.complete) {
    Event event = FilesIncompleteEvent{};
    (void)co_await sink.Emit(std::move(event));
  }
  before_ = std::move(after);
  co_return Status{};
}

void Workspace::RemoveCode() {
  // The guest may have removed or replaced it; what is left is a file in its own directory either way.
  if (!code_to_remove_.empty()) (void)directory_.RemoveFile(code_to_remove_);
  code_to_remove_.clear();
}

}  // namespace cella::confine
