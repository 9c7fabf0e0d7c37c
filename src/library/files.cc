#include "library/files.h"

#include <algorithm>

#include "library/handles.h"
#include "workspace/files.h"

namespace cella::library {
namespace {

constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kMaxEntries = 100'000;

// Under a descriptor of its own, so that a session that ends meanwhile takes nothing away.
Result<workspace::WorkspaceFiles> FilesOf(session::Session& session) {
  const os::Directory* workspace = session.workspace();
  if (workspace == nullptr) {
    return Err(ErrorCode::kUnsupported, "the executor {} has no files", session.isolation().executor);
  }
  TRY(os::Directory own, workspace->Duplicate());
  return workspace::WorkspaceFiles(std::move(own));
}

}  // namespace

async::Task<Result<std::string>> ReadFile(session::Session& session, std::string path) {
  CO_TRY(workspace::WorkspaceFiles files, FilesOf(session));
  CO_TRY(workspace::Download download, files.StartDownload(path));
  std::string content;
  std::string buffer(kChunk, '\0');
  for (;;) {
    CO_TRY(const size_t count, download.Read(buffer));
    if (count == 0) co_return content;
    content.append(buffer, 0, count);
    co_await async::Yield();
  }
}

async::Task<Status> WriteFile(session::Session& session, std::string path, std::string content) {
  CO_TRY(workspace::WorkspaceFiles files, FilesOf(session));
  workspace::WorkspaceFiles::UploadOptions options;
  options.announced = content.size();
  CO_TRY(workspace::Upload upload, files.StartUpload(path, options));
  for (std::string_view rest = content; !rest.empty(); rest.remove_prefix(std::min(kChunk, rest.size()))) {
    CO_TRY_VOID(upload.Write(rest.substr(0, kChunk)));
    co_await async::Yield();
  }
  co_return upload.Commit();
}

async::Task<Status> RemoveFile(session::Session& session, std::string path) {
  CO_TRY(workspace::WorkspaceFiles files, FilesOf(session));
  auto removed = co_await files.Remove(std::move(path), workspace::WorkspaceFiles::Recursive::kYes);
  co_return removed;
}

async::Task<Result<cella_listing>> ListFiles(session::Session& session, std::string path) {
  CO_TRY(workspace::WorkspaceFiles files, FilesOf(session));
  cella_listing listing;
  std::string after;
  for (;;) {
    CO_TRY(workspace::FilePage page, files.List(path, after, SIZE_MAX));
    for (workspace::FileEntry& entry : page.entries) {
      const bool is_directory = entry.info.type == os::EntryType::kDirectory;
      listing.entries.push_back({std::move(entry.name), entry.info.size, is_directory});
    }
    listing.complete = page.complete && (!page.next || listing.entries.size() < kMaxEntries);
    if (!page.next || listing.entries.size() >= kMaxEntries) co_return listing;
    after = std::move(*page.next);
    co_await async::Yield();
  }
}

}  // namespace cella::library
