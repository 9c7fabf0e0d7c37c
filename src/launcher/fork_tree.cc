// The part of libcella_fork.so for zygotes of kernels, which run without a jail. The zygote is a child of the
// supervisor. On request it makes a copy of itself, also a child of the supervisor, which becomes a launcher: the root
// of one unconfined tree. The programs of that tree are forks of this root, and thus of the zygote.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "jail/build.h"
#include "jail/messages.h"
#include "launcher/sibling.h"

using namespace cella::jail;

namespace {

// As cella-launch, but for a tree alone.
[[noreturn]] void BecomeRoot(int control, const Interpreter* interpreter) {
  // Not the zygote's own socket, whose end means something else.
  if (dup3(control, kControlFd, O_CLOEXEC) < 0) _exit(1);
  (void)setsid();
  (void)signal(SIGINT, SIG_DFL);
  (void)signal(SIGXFSZ, SIG_IGN);
  umask(022);
  int fds[kMaxMessageFds];
  BuildFds cgroups;
  const JailSpec* spec = ReceiveSpec(kControlFd, fds, &cgroups);
  if (spec == nullptr || (spec->flags & kUnconfined) == 0) {
    SendFailure(kControlFd, {Stage::kRequest, EPROTO, "build"});
    _exit(1);
  }
  RunUnconfined(*spec, cgroups, kControlFd, interpreter);
}

void MakeCopy(int control, const Request& request, int copy_control, const Interpreter* interpreter) {
  int pidfd = -1;
  const long pid = CloneSibling(&pidfd);
  if (pid == 0) BecomeRoot(copy_control, interpreter);
  Report report = {};
  report.tag = request.tag;
  if (pid < 0) {
    FillFailure(Fail(Stage::kFork), &report);
    SendReport(control, report, nullptr, 0);
    return;
  }
  report.kind = ReportKind::kForked;
  SendReport(control, report, &pidfd, 1);
  close(pidfd);
}

}  // namespace

// Serves until the supervisor wants no more copies, or is gone. The descriptor of kFork is here the control socket of
// the copy, and the answer is kForked. Called with the interpreter's lock held, and while the process has one thread.
extern "C" __attribute__((visibility("default"))) void cella_tree_serve(const Interpreter* interpreter) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  Report ready = {};
  ready.kind = ReportKind::kReady;
  if (!SendReport(kControlFd, ready, nullptr, 0)) return;
  for (;;) {
    Request request = {};
    int fds[kMaxMessageFds];
    int count = 0;
    if (ReceiveRequest(kControlFd, &request, fds, &count) <= 0) return;
    if (request.kind == RequestKind::kFork && count == 1) {
      MakeCopy(kControlFd, request, fds[0], interpreter);
    } else {
      SendFailure(kControlFd, {Stage::kRequest, EPROTO, "request"});
    }
    for (int i = 0; i < count; ++i) close(fds[i]);
  }
}
