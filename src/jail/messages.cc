#include "jail/messages.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>

namespace cella::jail {

bool SendReport(int socket, const Report& report, const int* fds, int fd_count) {
  iovec part = {const_cast<Report*>(&report), sizeof report};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    auto bytes = sizeof(int) * static_cast<size_t>(fd_count);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(header), fds, bytes);
  }
  ssize_t n;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof report);
}

void FillFailure(const Failure& failure, Report* report) {
  report->kind = ReportKind::kFailed;
  report->stage = failure.stage;
  report->error = failure.error;
  if (failure.detail != nullptr) strncpy(report->detail, failure.detail, sizeof report->detail - 1);
}

bool SendFailure(int socket, const Failure& failure) {
  Report report = {};
  FillFailure(failure, &report);
  return SendReport(socket, report, nullptr, 0);
}

int ReceiveRequest(int socket, Request* request, int fds[kMaxMessageFds], int* fd_count) {
  iovec part = {request, sizeof *request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  *fd_count = 0;
  ssize_t n;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    // ECONNRESET is reported once, ahead of what the peer sent before it closed its end.
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n <= 0) return static_cast<int>(n);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    *fd_count = static_cast<int>(count);
  }
  return n == static_cast<ssize_t>(sizeof *request) ? 1 : -1;
}

void* MapBlock(int fd, size_t minimum, size_t* size) {
  struct stat info;
  if (fstat(fd, &info) < 0 || static_cast<size_t>(info.st_size) < minimum) return nullptr;
  *size = static_cast<size_t>(info.st_size);
  void* block = mmap(nullptr, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  return block == MAP_FAILED ? nullptr : block;
}

}  // namespace cella::jail
