#include "storage/uploads.h"

namespace cella::storage {
namespace {

std::unexpected<Error> Unknown(uint64_t id) {
  return Err(ErrorCode::kNotFound, "there is no upload {}: a session has at most {} at once, of {} bytes together", id,
             Uploads::kMost, Uploads::kMostBytes);
}

}  // namespace

uint64_t Uploads::Add(FileStorage::Upload upload) {
  const std::scoped_lock lock(mutex_);
  if (uploads_.size() >= kMost) uploads_.erase(uploads_.begin());
  uploads_.emplace(++last_, std::move(upload));
  return last_;
}

Status Uploads::Append(uint64_t id, std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return Unknown(id);
  uint64_t total = bytes.size();
  for (const auto& [each, upload] : uploads_) total += upload.size();
  for (auto each = uploads_.begin(); total > kMostBytes && each != uploads_.end();) {
    if (each == found) {
      ++each;
      continue;
    }
    total -= each->second.size();
    each = uploads_.erase(each);
  }
  return found->second.Write(bytes);
}

Result<FileStorage::Upload> Uploads::Take(uint64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return Unknown(id);
  FileStorage::Upload upload = std::move(found->second);
  uploads_.erase(found);
  return upload;
}

}  // namespace cella::storage
