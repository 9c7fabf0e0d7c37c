#include "jail/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace cella::jail {

Failure WriteKernelFile(const char* path, const char* text, Stage stage) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Fail(stage, path);
  ssize_t n = write(fd, text, strlen(text));
  int saved = errno;
  close(fd);
  errno = saved;
  return n < 0 ? Fail(stage, path) : kOk;
}

Failure WriteIdMap(int pid, const char* which, uint32_t inside, uint32_t outside, Stage stage) {
  char path[64], map[64];
  if (pid == 0) {
    snprintf(path, sizeof path, "/proc/self/%s", which);
  } else {
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
  }
  snprintf(map, sizeof map, "%u %u 1", inside, outside);
  Failure failure = WriteKernelFile(path, map, stage);
  if (failure) failure.detail = which;  // the path does not outlive this function
  return failure;
}

}  // namespace cella::jail
