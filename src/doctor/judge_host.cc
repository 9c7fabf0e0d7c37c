// The kernel itself, its filters, and what limits can be held by.
#include <cerrno>

#include "base/result.h"
#include "base/units.h"
#include "doctor/judge.h"
#include "doctor/kernel_version.h"

namespace cella::doctor {

Check JudgeKernel(const HostFacts& host) {
  Check check{.name = "kernel", .detail = host.kernel_release};
  auto version = ParseKernelVersion(host.kernel_release);
  if (!version) {
    check.status = CheckStatus::kInfo;
    check.detail = fmt::format("'{}' is not understood; 5.14 or later is needed", host.kernel_release);
  } else if (*version < kNeededKernel) {
    check.status = CheckStatus::kMissing;
    check.detail += ": too old; mounts of a jail are made read-only by mount_setattr, which came with 5.12";
    check.fix = "use Linux 5.14 or later";
  } else if (*version < kSupportedKernel) {
    check.status = CheckStatus::kDegraded;
    check.detail +=
        ": before 5.14 RLIMIT_NPROC counts all processes of a user, so that without cgroups the limit of processes is "
        "not a jail's own; not tested";
    check.fix = "use Linux 5.14 or later";
  } else {
    check.detail += " (5.14 or later is needed)";
  }
  return check;
}

Check JudgeArchitecture(const HostFacts& host) {
  Check check{.name = "architecture", .detail = host.machine};
  if (host.machine != "x86_64" && host.machine != "aarch64") {
    check.status = CheckStatus::kMissing;
    check.detail += ": the system call filter exists for x86_64 and aarch64 only";
    check.fix = "use a 64-bit x86 or ARM machine";
  }
  return check;
}

Check JudgeSeccomp(const Facts& facts) {
  const Attempt& seccomp = facts.kernel.seccomp;
  Check check{.name = "seccomp", .detail = "system call filters can be loaded"};
  if (seccomp.ok() || (!seccomp.tried && facts.proof.ok && facts.proof.isolation.seccomp)) return check;
  if (!seccomp.tried) {
    check.status = CheckStatus::kInfo;
    check.detail = "not tried: the attempt could not be made";
    return check;
  }
  check.status = CheckStatus::kMissing;
  check.detail = fmt::format("a system call filter cannot be loaded: {}", ErrnoText(seccomp.error));
  check.fix = "use a kernel with CONFIG_SECCOMP_FILTER=y; inside a container, let its own filter allow seccomp";
  return check;
}

Check JudgeLandlock(const HostFacts& host) {
  Check check{.name = "landlock", .detail = fmt::format("ABI {}", host.landlock_abi)};
  if (host.landlock_abi >= 6) return check;
  if (host.landlock_abi > 0) {
    check.detail += "; signals and abstract sockets are scoped from ABI 6 (Linux 6.12), until then by namespaces only";
    return check;
  }
  check.status = CheckStatus::kDegraded;
  constexpr std::string_view kMeaning = "files are then protected by mounts alone, without a second wall";
  if (host.landlock_error == EOPNOTSUPP) {
    check.detail = fmt::format("built into the kernel, but not switched on; {}", kMeaning);
    check.fix = fmt::format(
        "add it to the boot parameters (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and reboot):\n"
        "  lsm=landlock,{}",
        host.lsm.empty() ? "lockdown,yama,integrity,apparmor,bpf" : host.lsm);
  } else if (host.landlock_error == EPERM || host.landlock_error == EACCES ||
             (host.landlock_error == ENOSYS && host.seccomp_filtered)) {
    check.detail = fmt::format("refused by the seccomp filter around this process; {}", kMeaning);
    check.fix = "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in that filter";
  } else {
    check.detail = fmt::format("not in this kernel; {}", kMeaning);
    check.fix = "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK=y and landlock in the boot parameter lsm=";
  }
  return check;
}

Check JudgeIdmap(const Facts& facts) {
  const Attempt& idmap = facts.kernel.idmap;
  Check check{.name = "idmapped_mounts", .detail = ""};
  if (facts.host.builder != Builder::kPrivileged || !idmap.tried) {
    check.status = CheckStatus::kInfo;
    check.detail = facts.host.builder == Builder::kPrivileged ? "not tried"
                                                              : "used only when root with CAP_SYS_ADMIN starts cella";
    return check;
  }
  if (idmap.ok()) {
    check.detail = fmt::format("the file system of '{}' can map owners", facts.host.directory);
    return check;
  }
  check.status = CheckStatus::kDegraded;
  check.detail = fmt::format("the file system of '{}' cannot map owners ({}): root cannot use --workdir there",
                             facts.host.directory, ErrnoText(idmap.error));
  check.fix = "run cella as the owner of the directory, or copy files with --file and --out";
  return check;
}

Check JudgeCgroups(const Facts& facts) {
  const CgroupFacts& cgroup = facts.cgroup;
  Check check{.section = Section::kLimits, .name = "cgroups", .detail = ""};
  std::vector<std::string> held, lacking;
  auto sort = [&](bool has, std::string name) { (has ? held : lacking).push_back(std::move(name)); };
  sort(cgroup.memory, "memory");
  sort(cgroup.pids, "processes");
  sort(cgroup.cpu, "processor share");
  sort(cgroup.cpuacct, "processor time");
  if (cgroup.version == "none") {
    check.status = CheckStatus::kDegraded;
    check.detail =
        "none for this user: memory is held by RLIMIT_DATA and a watchdog, processes by RLIMIT_NPROC, processor time "
        "by "
        "RLIMIT_CPU and a watchdog; --cpus is refused";
    check.fix = cgroup.reason;
    return check;
  }
  check.detail = fmt::format("{}: {}", cgroup.version, fmt::join(held, ", "));
  if (!cgroup.failure.empty()) {
    check.status = CheckStatus::kDegraded;
    check.detail += fmt::format("; but a group could not be made: {}", cgroup.failure);
    check.fix = cgroup.reason.empty() ? "see that this user may create directories in its own cgroup" : cgroup.reason;
    return check;
  }
  if (lacking.empty()) return check;
  check.status = CheckStatus::kDegraded;
  check.detail += fmt::format("; lacking: {}", fmt::join(lacking, ", "));
  if (!cgroup.cpu) check.detail += " (--cpus is refused)";
  check.fix = cgroup.reason;
  // What systemd gives a user's manager by default has no processors in it on many distributions.
  if (cgroup.version == "v2" && !cgroup.cpu && facts.host.uid != 0) {
    check.fix +=
        "\nUnder systemd, give users the processors, too, and log in anew:\n"
        "  sudo mkdir -p /etc/systemd/system/user@.service.d\n"
        "  printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo tee "
        "/etc/systemd/system/user@.service.d/delegate.conf\n"
        "  sudo systemctl daemon-reload";
  }
  return check;
}

Check JudgeSwap(const Facts& facts) {
  Check check{.section = Section::kLimits, .name = "swap", .detail = ""};
  if (facts.host.swap_bytes == 0) {
    check.detail = "none on this machine: a limit of memory is all there is";
  } else if (!facts.cgroup.memory) {
    check.status = CheckStatus::kInfo;
    check.detail = "without a memory cgroup, memory is counted per process, swapped or not";
  } else if (facts.cgroup.swap_accounted == true) {
    check.detail = "accounted: guests get none on top of their memory";
  } else if (facts.cgroup.swap_accounted == false) {
    check.status = CheckStatus::kDegraded;
    check.detail = fmt::format("{} on this machine, and not accounted: a guest beyond its memory may use it",
                               FormatByteSize(facts.host.swap_bytes));
    check.fix = "add to the boot parameters, then reboot:\n  swapaccount=1\nor switch swap off:\n  sudo swapoff -a";
  } else {
    check.status = CheckStatus::kInfo;
    check.detail = "whether it is accounted could not be seen";
  }
  return check;
}

}  // namespace cella::doctor
