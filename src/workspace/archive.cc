#include "workspace/archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "os/syscalls.h"
#include "workspace/client_path.h"

namespace cella::workspace {
namespace {

constexpr size_t kPiece = size_t{64} << 10;
// A walk over many directories that give nothing to send must end its turn as well.
constexpr int kEntriesAtOnce = 256;

TarLimits LimitsOf(const ArchiveIn::Options& options) {
  TarLimits limits;
  limits.total_bytes = options.quota.bytes;
  limits.links = options.links;
  limits.path.bytes -= options.into.size() + 1;
  return limits;
}

}  // namespace

void ArchiveNotes::Add(std::string_view path, std::string_view what) {
  if (++count <= kMaxNamed) named.push_back(fmt::format("'{}': {}", ShownName(path), what));
}

ArchiveIn::ArchiveIn(const os::Directory& directory, Options options)
    : directory_(&directory), options_(std::move(options)), reader_(LimitsOf(options_)) {}

Result<ArchiveIn> ArchiveIn::Start(const os::Directory& directory, Options options) {
  if (!options.into.empty()) {
    TRY_VOID(CheckClientPath(options.into, {.bytes = 2048}));
    TRY_VOID(directory.MakeDirectories(options.into));
    options.into += '/';
  }
  return ArchiveIn(directory, std::move(options));
}

std::unexpected<Error> ArchiveIn::Explain(Error error) const {
  if (error.sys_errno == ENOSPC || error.sys_errno == EDQUOT) error.message += " (the `disk` limit of the session)";
  if (files_ > 0) error.message += fmt::format("; {} files before it were written", files_);
  return std::unexpected(std::move(error));
}

Status ArchiveIn::Feed(std::string_view bytes) {
  reader_.Feed(bytes);
  for (;;) {
    auto event = reader_.Next();
    if (!event) {
      pending_.reset();
      return Explain(std::move(event.error()));
    }
    if (std::holds_alternative<TarWantsMore>(*event)) return {};
    if (auto handled = Handle(*event); !handled) {
      pending_.reset();
      return Explain(std::move(handled.error()));
    }
  }
}

Status ArchiveIn::Count(const std::string& path) {
  // An entry that is there already costs nothing new; asking first would cost more than it is worth.
  if (++made_ > options_.quota.files) {
    return Err(ErrorCode::kExhausted, "more than the {} files and directories that may still be written, at '{}'",
               options_.quota.files, ShownName(path));
  }
  return {};
}

Status ArchiveIn::StartFile(const TarFile& file) {
  TRY_VOID(Count(file.path));
  file_ = file;
  TRY(os::PendingFile pending, directory_->CreatePending(options_.into + file.path, file.executable ? 0755 : 0644));
  pending_.emplace(std::move(pending));
  return {};
}

Status ArchiveIn::Handle(const TarEvent& event) {
  if (const auto* file = std::get_if<TarFile>(&event)) return StartFile(*file);
  if (const auto* content = std::get_if<TarContent>(&event)) {
    bytes_ += content->bytes.size();
    return pending_->Write(content->bytes);
  }
  if (std::holds_alternative<TarFileEnd>(event)) {
    // A time that the file system cannot hold is not worth failing for.
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = file_.modified_s, .tv_nsec = 0}};
    (void)futimens(pending_->fd(), times);
    TRY_VOID(pending_->Commit(os::Directory::IfExists::kReplace));
    pending_.reset();
    ++files_;
  } else if (const auto* directory = std::get_if<TarDirectory>(&event)) {
    TRY_VOID(Count(directory->path));
    return directory_->MakeDirectories(options_.into + directory->path);
  } else if (const auto* skipped = std::get_if<TarSkipped>(&event)) {
    notes_.Add(skipped->path, skipped->what);
  }
  return {};
}

Status ArchiveIn::Finish() {
  if (auto finished = reader_.Finish(); !finished) {
    pending_.reset();
    return Explain(std::move(finished.error()));
  }
  return {};
}

Result<ArchiveOut> ArchiveOut::Start(const os::Directory& directory, const std::string& path, Bounds bounds) {
  if (!path.empty()) TRY_VOID(CheckClientPath(path));
  os::WalkBounds walk_bounds;
  walk_bounds.entries = bounds.entries;
  TRY(os::TreeWalk walk, directory.Walk(path, walk_bounds));
  return ArchiveOut(std::move(walk), bounds);
}

std::optional<std::string> ArchiveOut::Read() {
  if (finished_) return std::nullopt;
  for (int entries = 0; !finished_ && writer_.ready() < kPiece && entries < kEntriesAtOnce;) {
    if (writer_.wanted() > 0) {
      ReadContent();
    } else {
      NextEntry();
      ++entries;
    }
  }
  return writer_.Take();
}

void ArchiveOut::NextEntry() {
  std::optional<os::WalkEntry> entry = walk_.Next();
  if (!entry) {
    writer_.Finish();
    finished_ = true;
    return;
  }
  int64_t modified_s = entry->info.modified_ns / 1'000'000'000;
  if (entry->info.type == os::EntryType::kDirectory) {
    writer_.AddDirectory(entry->path, modified_s);
    return;
  }
  if (entry->info.type != os::EntryType::kFile) {
    notes_.Add(entry->path, entry->info.type == os::EntryType::kLink ? "left out, it is a symbolic link"
                                                                     : "left out, it is not a regular file");
    return;
  }
  auto file = walk_.Open();
  if (!file) {
    if (file.error().sys_errno == ENOENT) return;  // gone meanwhile
    notes_.Add(entry->path, fmt::format("left out: {}", file.error().message));
    complete_ = false;
    return;
  }
  if (file->info.size > bounds_.bytes - bytes_) {
    notes_.Add(entry->path, fmt::format("left out, it goes beyond {} bytes for the archive", bounds_.bytes));
    complete_ = false;
    return;
  }
  file_ = std::move(*file);
  bytes_ += file_.info.size;
  path_ = entry->path;
  writer_.BeginFile(
      {.path = path_, .size = file_.info.size, .modified_s = modified_s, .executable = (file_.info.mode & 0111) != 0});
  if (writer_.wanted() == 0) file_.fd.Reset();
}

void ArchiveOut::ReadContent() {
  std::array<char, kPiece> buffer;
  // Told by the length that was announced, never by the end of the file.
  if (file_.fd) {
    ssize_t n = os::RetryOnEintr([&] { return read(file_.fd.get(), buffer.data(), buffer.size()); });
    if (n > 0) {
      writer_.Write({buffer.data(), static_cast<size_t>(n)});
    } else {
      notes_.Add(path_, n == 0 ? "became shorter while it was read; zeros stand for the rest"
                               : "could not be read to its end; zeros stand for the rest");
      file_.fd.Reset();
    }
  } else {
    writer_.Fill(kPiece);
  }
  if (writer_.wanted() == 0) file_.fd.Reset();
}

}  // namespace cella::workspace
