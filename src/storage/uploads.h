// Artifacts that arrive in several calls: of code whose workspace the host does not see. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

#include "base/result.h"
#include "storage/file_storage.h"

namespace cella::storage {

class Uploads {
 public:
  // Of one session. The guest may begin any number and finish none: the oldest make room for others.
  static constexpr size_t kMost = 16;
  static constexpr uint64_t kMostBytes = uint64_t{128} << 20;

  uint64_t Add(FileStorage::Upload upload);
  // kNotFound: it was taken, or has made room for others.
  Status Append(uint64_t id, std::string_view bytes);
  Result<FileStorage::Upload> Take(uint64_t id);

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::map<uint64_t, FileStorage::Upload> uploads_;  // the oldest first
};

}  // namespace cella::storage
