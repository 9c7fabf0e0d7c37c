// cella-launch: receives one JailSpec over its control socket, builds the jail (or a maker of jails), hands its init
// over to the supervisor and is gone. Small, single-threaded, statically linked; it never sees guest data.
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "jail/build.h"
#include "jail/maker.h"
#include "jail/messages.h"
#include "jail/sys.h"

namespace {

using namespace cella::jail;

bool IsSocket(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

int main() {
  if (!IsSocket(kControlFd)) {
    fputs("cella-launch: started by cella, not by people; try 'cella run --help'\n", stderr);
    return 2;
  }
  // It trusts its spec, so it must never have more rights than the process that wrote it.
  if (getauxval(AT_SECURE) != 0) return 2;
  (void)fcntl(kControlFd, F_SETFD, FD_CLOEXEC);
  // Signals of the caller's terminal and process group are the supervisor's business.
  (void)setsid();
  (void)signal(SIGXFSZ, SIG_IGN);  // a refused write says so
  umask(022);                      // the tree's modes are ours to choose, not the caller's
  // The supervisor's death ends us, and init as well; init also sees its control socket close.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  int fds[kMaxMessageFds];
  BuildFds cgroups;
  JailSpec* spec = ReceiveSpec(kControlFd, fds, &cgroups);
  if (spec == nullptr) {
    SendFailure(kControlFd, {Stage::kRequest, EPROTO, "build"});
    return 1;
  }
  if (spec->flags & kUnconfined) {
    // As init of nothing it must outlive its supervisor for a moment: to end the guest's tree.
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    RunUnconfined(*spec, cgroups, kControlFd);
  }

  if (spec->flags & kOpenSources) {
    Failure failure = HandOverSources(*spec, kControlFd);
    if (failure) SendFailure(kControlFd, failure);
    return failure ? 1 : 0;
  }

  int init = -1;
  Failure failure =
      spec->flags & kMaker ? BuildMaker(spec, kControlFd, &init) : BuildJail(*spec, cgroups, kControlFd, &init);
  if (failure) {
    SendFailure(kControlFd, failure);
    return 1;
  }
  Report report = {};
  report.kind = ReportKind::kCreated;
  SendReport(kControlFd, report, &init, 1);
  return 0;
}
