#include "executor/container/container_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "confine/workspace.h"
#include "os/io.h"

namespace cella::executor {
namespace {

using agent::Kind;
using async::Task;

constexpr uint32_t kMaxEntries = 10'000;

template <typename T>
std::string Encode(const T& options) {
  return {reinterpret_cast<const char*>(&options), sizeof options};
}

bool IsUnsafe(std::string_view path) {
  return path.empty() || path.starts_with('/') || path.find('\0') != path.npos || path == ".." ||
         path.starts_with("../") || path.ends_with("/..") || path.find("/../") != path.npos;
}

}  // namespace

Task<Status> ContainerFiles::Write(std::string path, std::string_view content, bool replaces, uint32_t mode) {
  agent::PutOptions options = {
      mode, static_cast<uint32_t>(path.size()), 1, replaces ? 1u : 0u, agent::PutRoot::kWorkspace, 0};
  do {
    const std::string_view part = content.substr(0, agent::kFileChunk);
    content.remove_prefix(part.size());
    std::string payload = Encode(options) + path + std::string(part);
    auto answer = co_await bridge_.Ask(Kind::kPut, std::move(payload));
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    options.is_first = 0;
  } while (!content.empty());
  co_return Status{};
}

Task<void> ContainerFiles::Remove(std::vector<std::string> paths) {
  for (std::string& path : paths) (void)co_await bridge_.Ask(Kind::kRemove, std::move(path));
}

Task<Status> ContainerFiles::Fill(const std::vector<InputFile>& files, const language::Plan& plan) {
  for (const InputFile& file : files) {
    auto written = co_await Write(file.name, file.content, true, file.executable ? 0755 : 0644);
    CO_TRY_VOID(written);
  }
  if (!plan.named_by_code && !plan.save_only) code_to_remove_ = plan.file_name;
  auto written = co_await Write(plan.file_name, plan.code, plan.named_by_code, 0644);
  if (!written && written.error().sys_errno == EEXIST) {
    code_to_remove_.clear();
    // Running an input file itself: it is there already.
    const bool is_input = std::ranges::any_of(
        files, [&](const InputFile& file) { return file.name == plan.file_name && file.content == plan.code; });
    if (is_input) co_return Status{};
    co_return Err(ErrorCode::kInvalid, "the workspace has another file named '{}'", plan.file_name);
  }
  co_return written;
}

Status ContainerFiles::OpenOut(const std::string& path, uint64_t byte_limit) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return SysErr(error.value(), "create '{}'", path);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return SysErr(errno, "open '{}'", path);
  out_.emplace(std::move(fd), std::nullopt);
  out_bytes_left_ = byte_limit;
  return {};
}

Task<Result<os::DirectoryListing>> ContainerFiles::List() {
  auto answer = co_await bridge_.Ask(Kind::kList, Encode(agent::ListOptions{kMaxEntries}));
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  os::DirectoryListing listing;
  listing.complete = answer->head.complete != 0;
  std::string_view rest = answer->content;
  while (!rest.empty()) {
    agent::ListedFile listed = {};
    if (rest.size() < sizeof listed) break;
    std::memcpy(&listed, rest.data(), sizeof listed);
    rest.remove_prefix(sizeof listed);
    if (rest.size() < listed.path_size || listing.files.size() >= kMaxEntries) break;
    listing.files.push_back(
        {std::string(rest.substr(0, listed.path_size)), listed.size, listed.changed_ns, listed.inode});
    rest.remove_prefix(listed.path_size);
  }
  if (!rest.empty() || !std::ranges::is_sorted(listing.files, {}, &os::DirectoryEntry::path)) {
    co_return Err(ErrorCode::kInvalid, "the container's list of files is malformed");
  }
  co_return listing;
}

Task<Status> ContainerFiles::Remember() {
  auto listed = co_await List();
  CO_TRY(before_, std::move(listed));
  co_return Status{};
}

// An error is ours (the target's disk is full); what the guest's file is to blame for is in the change.
Task<Status> ContainerFiles::CopyOut(FileChange& change) {
  if (IsUnsafe(change.path)) {
    change.not_copied = "its name leads out of the workspace";
    co_return Status{};
  }
  UniqueFd target;
  uint64_t offset = 0;
  for (bool complete = false; !complete;) {
    std::string request = Encode(agent::GetOptions{offset, agent::kFileChunk}) + change.path;
    auto answer = co_await bridge_.Ask(Kind::kGet, std::move(request));
    if (!answer) {
      change.not_copied = answer.error().message;
      co_return Status{};
    }
    if (!target) {
      const mode_t mode = (answer->head.mode & 0100) != 0 ? 0755 : 0644;
      auto created = out_->CreateFile(change.path, os::Directory::IfExists::kReplace, mode);
      if (!created) {
        const int error = created.error().sys_errno;
        const bool is_ours = error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS || error == EACCES;
        if (is_ours) co_return std::unexpected(std::move(created.error()).WithContext("copy out"));
        change.not_copied = created.error().message;
        co_return Status{};
      }
      target = std::move(*created);
    }
    if (answer->content.size() > out_bytes_left_) {
      change.not_copied = "the files to copy out are larger than the disk limit (--disk)";
      co_return Status{};
    }
    out_bytes_left_ -= answer->content.size();
    CO_TRY_VOID(os::WriteAll(target.get(), answer->content));
    offset += answer->content.size();
    complete = answer->head.complete != 0 || answer->content.empty();
  }
  co_return Status{};
}

Task<Status> ContainerFiles::Report(run::EventSink& sink) {
  auto listed = co_await List();
  CO_TRY(os::DirectoryListing after, std::move(listed));
  for (FileChange& change : confine::CompareListings(before_, after)) {
    const bool deleted = change.kind == FileChange::Kind::kDeleted;
    if (deleted && (!after.complete || !before_.complete)) continue;
    if (out_ && !deleted) {
      auto copied = co_await CopyOut(change);
      CO_TRY_VOID(copied);
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

Task<void> ContainerFiles::RemoveCode() {
  if (code_to_remove_.empty()) co_return;
  std::string path = std::exchange(code_to_remove_, {});
  (void)co_await bridge_.Ask(Kind::kRemove, std::move(path));
}

}  // namespace cella::executor
