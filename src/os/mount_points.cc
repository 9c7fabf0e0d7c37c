#include "os/mount_points.h"

#include <algorithm>

#include "os/io.h"

namespace cella::os {
namespace {

constexpr uint64_t kMaxFile = uint64_t{16} << 20;  // a machine full of containers has thousands

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::string UnescapeMountPath(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && IsOctal(text[i + 1]) && IsOctal(text[i + 2]) &&
        IsOctal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> ParseMountPoints(std::string_view text) {
  std::vector<std::string> points;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // id parent major:minor root point …
    for (int field = 0; field < 4; ++field) line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
    line = line.substr(0, line.find(' '));
    if (line.starts_with('/')) points.push_back(UnescapeMountPath(line));
  }
  return points;
}

Result<std::vector<std::string>> MountPoints() {
  TRY(std::string text, ReadFile("/proc/self/mountinfo", kMaxFile));
  return ParseMountPoints(text);
}

}  // namespace cella::os
