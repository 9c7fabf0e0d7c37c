#include "workspace/client_path.h"

#include <limits.h>

#include "base/text.h"

namespace cella::workspace {
namespace {

constexpr size_t kMaxShown = 120;

}  // namespace

Status CheckClientPath(std::string_view path, PathBounds bounds) {
  if (path.empty()) return Err(ErrorCode::kInvalid, "the path is empty");
  if (path.size() > bounds.bytes) {
    return Err(ErrorCode::kInvalid, "path '{}' is longer than {} bytes", ShownName(path), bounds.bytes);
  }
  if (path.find('\0') != std::string_view::npos) {
    return Err(ErrorCode::kInvalid, "path '{}' has a NUL in it", ShownName(path));
  }
  if (path.front() == '/') {
    return Err(
        ErrorCode::kInvalid,
        "path '{}' is absolute, and below neither /workspace nor, in a sandbox, /tmp, whose files alone can be reached",
        ShownName(path));
  }
  size_t depth = 0;
  for (size_t start = 0; start <= path.size();) {
    size_t slash = std::min(path.find('/', start), path.size());
    std::string_view part = path.substr(start, slash - start);
    start = slash + 1;
    if (part.empty()) {
      return Err(ErrorCode::kInvalid, "path '{}' has an empty part: two '/' in a row, or one at its end",
                 ShownName(path));
    }
    if (part == "." || part == "..") {
      return Err(ErrorCode::kInvalid, "path '{}' has a part '{}', which is not followed", ShownName(path), part);
    }
    if (part.size() > NAME_MAX) {
      return Err(ErrorCode::kInvalid, "path '{}' has a part of more than {} bytes", ShownName(path), NAME_MAX);
    }
    if (++depth > bounds.depth) {
      return Err(ErrorCode::kInvalid, "path '{}' is more than {} directories deep", ShownName(path), bounds.depth);
    }
  }
  return {};
}

std::string ShownName(std::string_view name) {
  bool cut = name.size() > kMaxShown;
  std::string shown = ToUtf8Lossy(cut ? name.substr(0, kMaxShown) : name);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return cut ? shown + "…" : shown;
}

}  // namespace cella::workspace
