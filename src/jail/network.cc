#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {

// A new network namespace has its loopback down, and then not even a server on localhost works.
Failure BringUpLoopback() {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Fail(Stage::kLoopback);
  ifreq request = {};
  memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  int set = ioctl(fd, SIOCSIFFLAGS, &request);
  int saved = errno;
  close(fd);
  errno = saved;
  return set < 0 ? Fail(Stage::kLoopback) : kOk;
}

}  // namespace cella::jail
