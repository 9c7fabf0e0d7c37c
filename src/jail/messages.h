// Fixed-size messages with descriptors over a SOCK_SEQPACKET socket. Freestanding.
#pragma once

#include <cstddef>

#include "jail/failure.h"
#include "jail/protocol.h"

namespace cella::jail {

bool SendReport(int socket, const Report& report, const int* fds, int fd_count);
void FillFailure(const Failure& failure, Report* report);
bool SendFailure(int socket, const Failure& failure);

// Returns 1 for a request, 0 when the peer is gone, -1 on error. Descriptors arrive close-on-exec.
int ReceiveRequest(int socket, Request* request, int fds[kMaxMessageFds], int* fd_count);

// A private copy of a memfd's content; null when it is not what `minimum` says at least.
void* MapBlock(int fd, size_t minimum, size_t* size);

}  // namespace cella::jail
