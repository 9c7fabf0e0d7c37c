#include "base/random.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace cella {

std::string RandomHex(size_t digits) {
  std::vector<uint8_t> bytes((digits + 1) / 2);
  size_t filled = 0;
  while (filled < bytes.size()) {
    ssize_t count = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (count < 0 && errno != EINTR) break;  // only ENOSYS is possible; zeros are still a valid name
    if (count > 0) filled += static_cast<size_t>(count);
  }
  std::string hex;
  for (uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  hex.resize(digits);
  return hex;
}

}  // namespace cella
