#include "os/unread.h"

#include <sys/ioctl.h>

namespace cella::os {

size_t UnreadBytes(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

}  // namespace cella::os
