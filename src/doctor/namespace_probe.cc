#include "doctor/namespace_probe.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <sstream>

#include "base/unique_fd.h"
#include "doctor/child.h"
#include "jail/kernel_file.h"
#include "jail/steps.h"
#include "jail/sys.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::doctor {
namespace {

using namespace std::chrono_literals;
namespace sys = jail::sys;

constexpr auto kWholeLimit = 2000ms;
constexpr auto kStepLimit = 500ms;
constexpr uint32_t kNobody = 65534;  // stands for the unprivileged id that a jail started by root gets

bool HasJailCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) < 0) return false;
  constexpr uint32_t kNeeded = (1u << CAP_SYS_ADMIN) | (1u << CAP_SETUID) | (1u << CAP_SETGID);
  return (data[0].effective & kNeeded) == kNeeded;
}

bool NobodyExists() {
  auto map = os::ReadFile("/proc/self/uid_map", 65536);
  if (!map) return false;
  std::istringstream lines(*map);
  for (uint64_t inside, outside, count; lines >> inside >> outside >> count;) {
    if (inside <= kNobody && kNobody < inside + count) return true;
  }
  return false;
}

void Record(Attempt* attempt, bool worked) {
  attempt->error = worked ? 0 : errno;
  attempt->tried = true;
}

void TryNamespace(unsigned long flag, Attempt* attempt) {
  (void)RunInChild([&] { Record(attempt, unshare(static_cast<int>(flag)) == 0); }, kStepLimit);
}

// A filter that allows everything, loaded as the jail loads its own.
void TrySeccomp(Attempt* attempt) {
  (void)RunInChild(
      [&] {
        sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        sock_fprog program = {1, &allow};
        Record(attempt, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
      },
      kStepLimit);
}

// The clone of the directory is detached: it is visible nowhere and gone with its descriptor.
void TryIdmap(const char* directory, Attempt* attempt) {
  (void)RunInChild(
      [&] {
        UniqueFd tree(sys::OpenTree(AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
        struct stat info;
        if (!tree || fstat(tree.get(), &info) < 0) return Record(attempt, false);
        int map = -1;
        if (jail::Failure failure = jail::OpenIdmap(info.st_uid, info.st_gid, kNobody, kNobody, &map)) {
          errno = failure.error;
          return Record(attempt, false);
        }
        UniqueFd owned(map);
        mount_attr attr = {};
        attr.attr_set = MOUNT_ATTR_IDMAP;
        attr.userns_fd = static_cast<uint64_t>(map);
        Record(attempt, sys::MountSetattr(tree.get(), "", AT_EMPTY_PATH, &attr) == 0);
      },
      kStepLimit);
}

bool DropUser() {
  return setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

bool MapOwnIds(uint32_t uid, uint32_t gid) {
  jail::Failure failure = jail::WriteKernelFile("/proc/self/setgroups", "deny", jail::Stage::kMapIds);
  if (!failure) failure = jail::WriteIdMap(0, "uid_map", 0, uid, jail::Stage::kMapIds);
  if (!failure) failure = jail::WriteIdMap(0, "gid_map", 0, gid, jail::Stage::kMapIds);
  errno = failure.error;
  return !failure;
}

bool MountTmpfs() {
  return sys::Mount("tmpfs", "/tmp", "tmpfs", sys::kMsNosuid | sys::kMsNodev, "size=1m,nr_inodes=64,mode=755") == 0;
}

// What the launcher does before it makes a jail. Leaves the calling process in the new namespaces.
bool BuildBasis(Builder builder, KernelAttempts* out) {
  auto step = [&](BasisStage stage, bool worked) {
    if (!worked) {
      out->basis_stage = stage;
      Record(&out->basis, false);
    }
    return worked;
  };
  if (builder == Builder::kDropFirst && !step(BasisStage::kDropUser, DropUser())) return false;
  if (builder == Builder::kPrivileged) {
    Attempt* user = &out->basis;
    TryNamespace(CLONE_NEWUSER, user);
    errno = user->error;
    if (!step(BasisStage::kUserNamespace, user->ok())) return false;
  } else {
    // Taken before unshare: afterwards both read as the overflow id.
    uint32_t uid = geteuid(), gid = getegid();
    if (!step(BasisStage::kUserNamespace, unshare(CLONE_NEWUSER) == 0)) return false;
    DieWithParent();
    if (!step(BasisStage::kMapIds, MapOwnIds(uid, gid))) return false;
  }
  if (!step(BasisStage::kMountNamespace, unshare(CLONE_NEWNS) == 0)) return false;
  bool is_private = sys::Mount(nullptr, "/", nullptr, sys::kMsRec | sys::kMsPrivate, nullptr) == 0;
  if (!step(BasisStage::kPrivateMounts, is_private)) return false;
  if (!step(BasisStage::kTmpfs, MountTmpfs())) return false;
  Record(&out->basis, true);
  return true;
}

bool MountOverlay() {
  if (!MountTmpfs()) return false;
  for (const char* directory : {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"}) {
    if (mkdir(directory, 0755) < 0) return false;
  }
  return sys::Mount("overlay", "/tmp/merged", "overlay", 0,
                    "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr") == 0;
}

[[noreturn]] void NestedMain(int mapped, KernelAttempts* out) {
  char byte;
  if (read(mapped, &byte, 1) != 1) _exit(1);
  if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) _exit(1);
  DieWithParent();
  constexpr unsigned long kFlags = sys::kMsNosuid | sys::kMsNodev | sys::kMsNoexec;
  Record(&out->proc, sys::Mount("proc", "/proc", "proc", kFlags, nullptr) == 0);
  Record(&out->overlay, MountOverlay());
  _exit(0);
}

// As init of a jail is born: by clone3, in all namespaces at once, its ids mapped from outside.
void TryNested(Builder builder, KernelAttempts* out) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0) return Record(&out->together, false);
  UniqueFd wait(fds[0]), mapped(fds[1]);
  int pidfd = -1;
  clone_args args = {};
  args.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
               CLONE_NEWCGROUP | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  long pid = sys::Clone3(&args);
  if (pid < 0) return Record(&out->together, false);
  if (pid == 0) {
    mapped.Reset();
    DieWithParent();
    NestedMain(wait.get(), out);
  }
  UniqueFd child(pidfd);
  uint32_t outside = builder == Builder::kPrivileged ? kNobody : 0;
  jail::Failure failure = jail::WriteIdMap(static_cast<int>(pid), "uid_map", 0, outside, jail::Stage::kMapIds);
  if (!failure) failure = jail::WriteIdMap(static_cast<int>(pid), "gid_map", 0, outside, jail::Stage::kMapIds);
  errno = failure.error;
  Record(&out->together, !failure);
  if (!failure) (void)!write(mapped.get(), "m", 1);
  mapped.Reset();  // without its byte the child reads an end of file and exits
  (void)WaitInTime(child.get(), kStepLimit);
}

}  // namespace

Builder CurrentBuilder() {
  // Without a second id this is root of a user namespace of one id, as of `unshare -r`: outside an ordinary user.
  if (geteuid() != 0 || !NobodyExists()) return Builder::kOrdinary;
  return HasJailCapabilities() ? Builder::kPrivileged : Builder::kDropFirst;
}

KernelAttempts TryKernel(Builder builder, const std::string& directory) {
  SharedMemory<KernelAttempts> shared;
  KernelAttempts* out = shared.get();
  if (out == nullptr) return {};
  bool finished = RunInChild(
      [&] {
        TrySeccomp(&out->seccomp);
        if (builder == Builder::kPrivileged) TryIdmap(directory.c_str(), &out->idmap);
        if (!BuildBasis(builder, out)) return;
        TryNamespace(CLONE_NEWPID, &out->pid);
        TryNamespace(CLONE_NEWNET, &out->net);
        TryNamespace(CLONE_NEWIPC, &out->ipc);
        TryNamespace(CLONE_NEWUTS, &out->uts);
        TryNamespace(CLONE_NEWCGROUP, &out->cgroup);
        TryNested(builder, out);
      },
      kWholeLimit);
  KernelAttempts result = *out;
  result.timed_out = !finished;
  return result;
}

}  // namespace cella::doctor
