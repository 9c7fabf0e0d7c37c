// The policy as a pure function: a small interpreter of the BPF subset that seccomp allows runs the compiled program.
#include "jail/seccomp_policy/policy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "jail/seccomp_policy/compile.h"

namespace cella::jail::policy {
namespace {

uint32_t Evaluate(const std::vector<sock_filter>& program, const seccomp_data& data) {
  uint32_t a = 0;
  for (size_t pc = 0; pc < program.size(); ++pc) {
    const sock_filter& op = program[pc];
    switch (op.code) {
      case BPF_LD | BPF_W | BPF_ABS: std::memcpy(&a, reinterpret_cast<const char*>(&data) + op.k, sizeof a); break;
      case BPF_ALU | BPF_AND | BPF_K: a &= op.k; break;
      case BPF_RET | BPF_K: return op.k;
      case BPF_JMP | BPF_JA: pc += op.k; break;
      case BPF_JMP | BPF_JEQ | BPF_K: pc += a == op.k ? op.jt : op.jf; break;
      case BPF_JMP | BPF_JGE | BPF_K: pc += a >= op.k ? op.jt : op.jf; break;
      case BPF_JMP | BPF_JSET | BPF_K: pc += (a & op.k) != 0 ? op.jt : op.jf; break;
      default: ADD_FAILURE() << "unexpected instruction " << op.code; return 0;
    }
  }
  ADD_FAILURE() << "ran off the end";
  return 0;
}

class Filter {
 public:
  explicit Filter(const Policy& policy) : compiled_(Compile(policy, NativeArchitecture())) {}

  uint32_t On(long number, std::initializer_list<uint64_t> arguments = {}) const {
    return OnArchitecture(NativeArchitecture().audit, number, arguments);
  }
  uint32_t OnArchitecture(uint32_t audit, long number, std::initializer_list<uint64_t> arguments = {}) const {
    seccomp_data data = {};
    data.nr = static_cast<int>(number);
    data.arch = audit;
    size_t i = 0;
    for (uint64_t argument : arguments) data.args[i++] = argument;
    return Evaluate(compiled_.program, data);
  }
  const Compiled& compiled() const { return compiled_; }

 private:
  Compiled compiled_;
};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t Refused(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

TEST(SeccompPolicyTest, EveryNumberGetsTheActionOfItsRule) {
  // The reference: a linear look-up of the rules, against the compiled search tree.
  Policy policy = DefaultPolicy();
  Filter filter(policy);
  EXPECT_EQ(filter.On(SYS_read), kAllow);
  EXPECT_EQ(filter.On(SYS_execve), kAllow);
  EXPECT_EQ(filter.On(SYS_mount), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_ptrace), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_unshare, {0}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_io_uring_setup), Refused(ENOSYS));
  EXPECT_EQ(filter.On(SYS_openat2), Refused(ENOSYS));
  EXPECT_EQ(filter.On(SYS_clone3), Refused(ENOSYS));
  for (long number = 463; number < 1024; ++number) EXPECT_EQ(filter.On(number), Refused(ENOSYS)) << number;
}

TEST(SeccompPolicyTest, ForeignAbisAreKilled) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.OnArchitecture(AUDIT_ARCH_I386, 3), kKill);
#if defined(__x86_64__)
  EXPECT_EQ(filter.On(0x40000000 | SYS_read), kKill);
#endif
}

TEST(SeccompPolicyTest, CloneCannotCreateNamespaces) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.On(SYS_clone, {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | SIGCHLD}), kAllow);
  for (uint64_t flag :
       {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP}) {
    EXPECT_EQ(filter.On(SYS_clone, {flag | SIGCHLD}), Refused(EPERM)) << std::hex << flag;
  }
}

TEST(SeccompPolicyTest, AllowsOnlyUnixAndInternetSockets) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.On(SYS_socket, {AF_UNIX, SOCK_STREAM, 0}), kAllow);
  EXPECT_EQ(filter.On(SYS_socket, {AF_INET, SOCK_STREAM, 6}), kAllow);
  EXPECT_EQ(filter.On(SYS_socket, {AF_INET6, SOCK_DGRAM, 17}), kAllow);
  EXPECT_EQ(filter.On(SYS_socket, {AF_INET, SOCK_STREAM, 262}), Refused(EPROTONOSUPPORT));
  for (uint64_t family = 0; family < 64; ++family) {
    if (family == AF_UNIX || family == AF_INET || family == AF_INET6) continue;
    EXPECT_EQ(filter.On(SYS_socket, {family, SOCK_RAW, 0}), Refused(EAFNOSUPPORT)) << family;
    EXPECT_EQ(filter.On(SYS_socketpair, {family, SOCK_RAW, 0}), Refused(EAFNOSUPPORT)) << family;
  }
  // The kernel truncates the family to 32 bits, so the upper half must not hide AF_ALG.
  EXPECT_EQ(filter.On(SYS_socket, {0x100000026, SOCK_RAW, 0}), Refused(EAFNOSUPPORT));
}

TEST(SeccompPolicyTest, RejectsTerminalInjectionWithAnyUpperBits) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.On(SYS_ioctl, {0, TCGETS}), kAllow);
  EXPECT_EQ(filter.On(SYS_ioctl, {0, TIOCSTI}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_ioctl, {0, 0x100000000 | TIOCSTI}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_ioctl, {0, TIOCLINUX}), Refused(EPERM));
}

TEST(SeccompPolicyTest, RejectsSetIdBits) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.On(SYS_fchmod, {3, 0755}), kAllow);
  EXPECT_EQ(filter.On(SYS_fchmod, {3, 04755}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_fchmodat, {3, 0, 02755}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_openat, {3, 0, O_RDONLY, 04755}), kAllow) << "without O_CREAT the mode is not read";
  EXPECT_EQ(filter.On(SYS_openat, {3, 0, O_CREAT | O_WRONLY, 04755}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_openat, {3, 0, O_TMPFILE | O_WRONLY, 04755}), Refused(EPERM));
  EXPECT_EQ(filter.On(452 /* fchmodat2 */, {3, 0, 04755}), Refused(EPERM));
}

TEST(SeccompPolicyTest, RejectsSlowingOrLimitingInit) {
  Filter filter(DefaultPolicy());
  EXPECT_EQ(filter.On(SYS_prlimit64, {0}), kAllow);
  EXPECT_EQ(filter.On(SYS_prlimit64, {1}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_prlimit64, {0, RLIMIT_CORE, 0x1000}), Refused(0)) << "has no effect";
  EXPECT_EQ(filter.On(SYS_prlimit64, {0, RLIMIT_CORE, 0}), kAllow) << "only asks";
  EXPECT_EQ(filter.On(SYS_sched_setaffinity, {1}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_setpriority, {0 /* PRIO_PROCESS */, 0}), kAllow);
  EXPECT_EQ(filter.On(SYS_setpriority, {0, 1}), Refused(EPERM));
  EXPECT_EQ(filter.On(SYS_setpriority, {2 /* PRIO_USER */, 0}), Refused(EPERM));
}

TEST(SeccompPolicyTest, ZygoteDiffersOnlyInSetns) {
  Filter normal(DefaultPolicy()), zygote(ZygotePolicy());
  EXPECT_NE(normal.On(SYS_setns), SECCOMP_RET_ALLOW);
  EXPECT_EQ(zygote.On(SYS_setns), SECCOMP_RET_ALLOW);
  for (long number = 0; number < 512; ++number) {
    if (number != SYS_setns) EXPECT_EQ(normal.On(number), zygote.On(number)) << number;
  }
}

TEST(SeccompPolicyTest, StrictMemoryRejectsMemoryThatOnlyACgroupCounts) {
  Filter normal(DefaultPolicy()), strict(StrictMemoryPolicy());
  for (long number : {SYS_memfd_create, SYS_shmget, SYS_msgget, SYS_mq_open}) {
    EXPECT_EQ(normal.On(number), kAllow);
    EXPECT_EQ(strict.On(number), Refused(ENOSYS));
  }
  EXPECT_EQ(strict.On(SYS_mmap, {0, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS}), kAllow);
  EXPECT_EQ(strict.On(SYS_mmap, {0, 0, 0, MAP_SHARED}), kAllow);
  EXPECT_EQ(strict.On(SYS_mmap, {0, 0, 0, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE}), Refused(ENOMEM));
  EXPECT_EQ(strict.On(SYS_setsockopt, {0, SOL_SOCKET, SO_SNDBUF}), Refused(0));
  EXPECT_EQ(strict.On(SYS_setsockopt, {0, SOL_SOCKET, SO_REUSEADDR}), kAllow);
}

TEST(SeccompPolicyTest, EveryRuleNameIsASystemCall) {
  // Names that are another architecture's, or that this kernel generation dropped.
  Filter filter(DefaultPolicy());
  EXPECT_LT(filter.compiled().unknown.size(), 40u);
  for (const std::string& name : filter.compiled().unknown) {
    EXPECT_TRUE(name != "read" && name != "openat" && name != "mount" && name != "ptrace") << name;
  }
  EXPECT_LT(filter.compiled().program.size(), 1024u);
}

}  // namespace
}  // namespace cella::jail::policy
