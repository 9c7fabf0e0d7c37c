#include "workspace/files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "os/syscalls.h"
#include "workspace/client_path.h"
#include "workspace/media_type.h"

namespace cella::workspace {
namespace {

constexpr size_t kMaxPage = 1000;
// About a millisecond on a tmpfs.
constexpr size_t kRemovedAtOnce = 512;
// A guest can make files as fast as we remove them.
constexpr size_t kMaxRemovals = 1'000'000;

// The disk limit is met as ENOSPC of the workspace's own file system.
std::unexpected<Error> Explain(Error error) {
  if (error.sys_errno == ENOSPC || error.sys_errno == EDQUOT) error.message += " (the `disk` limit of the session)";
  return std::unexpected(std::move(error));
}

FileEntry Describe(std::string name, const os::EntryInfo& info) {
  std::string_view type = info.type == os::EntryType::kFile ? MediaTypeOf(name) : std::string_view();
  return {std::move(name), info, type};
}

}  // namespace

std::string_view ToString(os::EntryType type) {
  switch (type) {
    case os::EntryType::kFile: return "file";
    case os::EntryType::kDirectory: return "directory";
    case os::EntryType::kLink: return "link";
    case os::EntryType::kOther: break;
  }
  return "other";
}

Status Upload::Write(std::string_view chunk) {
  if (chunk.size() > allowed_ - bytes_) {
    return Err(ErrorCode::kExhausted, "'{}' is larger than the {} bytes that may still be written", ShownName(path_),
               allowed_);
  }
  if (auto written = file_.Write(chunk); !written) return Explain(std::move(written.error()));
  bytes_ += chunk.size();
  return {};
}

Status Upload::Commit() { return file_.Commit(if_exists_); }

Download::Download(os::OpenedFile file, std::string path)
    : file_(std::move(file)), path_(std::move(path)), media_type_(MediaTypeOf(path_)), end_(file_.info.size) {}

Status Download::SetRange(uint64_t offset, std::optional<uint64_t> length) {
  uint64_t whole = size();
  // An empty file has no byte to begin at; asking for its start is still fine.
  if (offset > whole || (offset == whole && whole > 0)) {
    return Err(ErrorCode::kInvalid, "'{}' has {} bytes; none at offset {}", ShownName(path_), whole, offset);
  }
  begin_ = position_ = offset;
  end_ = offset + std::min(length.value_or(whole - offset), whole - offset);
  return {};
}

Result<size_t> Download::Read(std::span<char> buffer) {
  size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), end_ - position_));
  if (wanted == 0) return size_t{0};
  ssize_t n =
      os::RetryOnEintr([&] { return pread(file_.fd.get(), buffer.data(), wanted, static_cast<off_t>(position_)); });
  if (n < 0) return SysErr(errno, "read '{}'", ShownName(path_));
  if (n == 0) {
    return Err(ErrorCode::kClosed, "'{}' became shorter while it was read: {} of {} bytes", ShownName(path_),
               position_ - begin_, length());
  }
  position_ += static_cast<uint64_t>(n);
  return static_cast<size_t>(n);
}

// The place that a link leads to, by its text: the kernel follows none of it, so a guest that exchanges a link
// meanwhile gains nothing. One that leads out is only a name, and is replaced.
Result<std::string> WorkspaceFiles::Follow(std::string path) const {
  constexpr int kMostLinks = 8;
  const std::string inside_names = seen_as_ + "/";
  for (int links = 0; links < kMostLinks; ++links) {
    auto info = directory_.Stat(path);
    if (!info || info->type != os::EntryType::kLink) return path;
    TRY(std::string target, directory_.ReadLink(path));
    namespace fs = std::filesystem;
    fs::path next = target.starts_with(inside_names) ? fs::path(target.substr(inside_names.size()))
                                                     : fs::path(path).parent_path() / target;
    std::string inside = next.lexically_normal().string();
    if (!CheckClientPath(inside)) return path;
    path = std::move(inside);
  }
  return path;
}

Result<Upload> WorkspaceFiles::StartUpload(const std::string& asked, const UploadOptions& options) const {
  TRY_VOID(CheckClientPath(asked));
  TRY(const std::string path, Follow(asked));
  if (options.quota.files == 0 && !directory_.Stat(path)) {
    return Err(ErrorCode::kExhausted, "no more files may be written; '{}' would be one too many", ShownName(path));
  }
  if (options.announced.value_or(0) > options.quota.bytes) {
    return Err(ErrorCode::kExhausted, "'{}' has {} bytes, and {} may still be written", ShownName(path),
               *options.announced, options.quota.bytes);
  }
  mode_t mode = options.executable ? 0755 : 0644;
  if (auto before = directory_.Stat(path); before && before->type == os::EntryType::kFile) {
    mode = (before->mode & 0777) | (options.executable ? 0111 : 0);
  }
  auto pending = directory_.CreatePending(path, mode);
  if (!pending) return Explain(std::move(pending.error()));
  return Upload(std::move(*pending), path, options.if_exists, options.quota.bytes);
}

Result<Download> WorkspaceFiles::StartDownload(const std::string& path) const {
  TRY_VOID(CheckClientPath(path));
  TRY(os::OpenedFile file, directory_.OpenWithInfo(path));
  return Download(std::move(file), path);
}

Result<FileEntry> WorkspaceFiles::Stat(const std::string& path) const {
  TRY_VOID(CheckClientPath(path));
  TRY(os::EntryInfo info, directory_.Stat(path));
  return Describe(path.substr(path.rfind('/') + 1), info);
}

Result<FilePage> WorkspaceFiles::List(const std::string& path, const std::string& after, size_t limit) const {
  if (!path.empty()) TRY_VOID(CheckClientPath(path));
  if (limit == 0) return Err(ErrorCode::kInvalid, "a page needs room for at least one entry");
  TRY(os::ChildPage children, directory_.ListChildren(path, after, std::min(limit, kMaxPage)));
  FilePage page;
  page.complete = children.complete;
  if (children.more) page.next = std::move(children.last);
  for (os::ChildEntry& child : children.entries) page.entries.push_back(Describe(std::move(child.name), child.info));
  return page;
}

Status WorkspaceFiles::MakeDirectories(const std::string& path) const {
  TRY_VOID(CheckClientPath(path));
  if (auto made = directory_.MakeDirectories(path); !made) return Explain(std::move(made.error()));
  return {};
}

async::Task<Status> WorkspaceFiles::Remove(std::string path, Recursive recursive) const {
  CO_TRY_VOID(CheckClientPath(path));
  if (recursive == Recursive::kNo) co_return directory_.Remove(path);
  for (size_t removed = 0; removed < kMaxRemovals; removed += kRemovedAtOnce) {
    auto step = directory_.RemoveTree(path, kRemovedAtOnce);
    // After the first step the guest may have removed the rest itself.
    if (!step && step.error().sys_errno == ENOENT && removed > 0) co_return Status{};
    if (!step) co_return std::unexpected(std::move(step.error()));
    if (*step == os::Directory::Removed::kAll) co_return Status{};
    bool going_on = co_await async::SleepUntil(async::Clock::now());
    if (!going_on) co_return Err(ErrorCode::kClosed, "removing '{}' was cancelled", ShownName(path));
  }
  co_return Err(ErrorCode::kExhausted, "'{}' is not gone after {} removals: something keeps filling it",
                ShownName(path), kMaxRemovals);
}

}  // namespace cella::workspace
