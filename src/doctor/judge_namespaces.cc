// Namespaces, and what is mounted inside them: the ways in which systems forbid them, told apart by errno, switches and
// surroundings.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "base/result.h"
#include "doctor/judge.h"

namespace cella::doctor {
namespace {

constexpr char kCalls[] = "clone3, unshare, mount, umount2, pivot_root, open_tree, move_mount and mount_setattr";

bool Refused(int error) { return error == EPERM || error == EACCES; }

bool BuildsAsOrdinaryUser(const HostFacts& host) { return host.builder != Builder::kPrivileged; }

std::string_view StageText(BasisStage stage) {
  switch (stage) {
    case BasisStage::kDropUser: return "becoming an unprivileged user";
    case BasisStage::kUserNamespace: return "creating a user namespace";
    case BasisStage::kMapIds: return "mapping the user id in it";
    case BasisStage::kMountNamespace: return "creating a mount namespace";
    case BasisStage::kPrivateMounts: return "making the mounts private";
    case BasisStage::kTmpfs: return "mounting a tmpfs in it";
  }
  return "";
}

std::string SetSwitch(std::string_view name, std::string_view value) {
  return fmt::format("  echo '{0} = {1}' | sudo tee -a /etc/sysctl.d/99-cella.conf\n  sudo sysctl -w {0}={1}", name,
                     value);
}

// How to let a jail be built inside a container of that kind.
std::string ContainerFix(const HostFacts& host) {
  if (host.container == "docker") {
    return "start the container with:\n"
           "  docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
           "systempaths=unconfined …\n"
           "or, instead of the first, with a seccomp profile that allows " +
           std::string(kCalls);
  }
  if (host.container == "podman") {
    return "start the container with:\n"
           "  podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …\n"
           "or, instead of the first, with a seccomp profile that allows " +
           std::string(kCalls);
  }
  if (host.container == "kubernetes") {
    return "in the securityContext of the pod's container set:\n"
           "  seccompProfile: {type: Unconfined}\n"
           "  appArmorProfile: {type: Unconfined}\n"
           "  procMount: Unmasked    # needs hostUsers: false in the pod's spec\n"
           "or name a seccomp profile of your own that allows " +
           std::string(kCalls);
  }
  return fmt::format("allow it {} in its seccomp filter and security profile", kCalls);
}

// A command, not a here-document: it can be pasted with the margin that it is printed with.
std::string InstallProfile(std::string_view profile) {
  std::string text = "  printf '%s\\n'";
  while (!profile.empty()) {
    size_t end = std::min(profile.find('\n'), profile.size());
    text += " \\\n    '";
    for (char c : profile.substr(0, end)) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
    profile.remove_prefix(std::min(end + 1, profile.size()));
  }
  return text +
         " | sudo tee /etc/apparmor.d/cella-launch\n"
         "  sudo apparmor_parser -r /etc/apparmor.d/cella-launch";
}

std::string AppArmorFix(const Facts& facts) {
  std::string launcher = facts.launcher.empty() ? "/usr/libexec/cella/cella-launch" : facts.launcher;
  return fmt::format("allow it to cella-launch only, by a profile:\n{}\nor to all programs:\n{}",
                     InstallProfile(AppArmorProfile(launcher)),
                     SetSwitch("kernel.apparmor_restrict_unprivileged_userns", "0"));
}

struct Diagnosis {
  std::string why;
  std::string fix;
};

Diagnosis Diagnose(const Facts& facts, int error) {
  const HostFacts& host = facts.host;
  if (error == ENOSPC) {
    if (host.max_user_namespaces == 0) {
      return {"user.max_user_namespaces is 0", "allow them:\n" + SetSwitch("user.max_user_namespaces", "15000")};
    }
    return {"the limit of user namespaces is reached, or they are nested too deeply (32 levels)",
            "raise the limit:\n" + SetSwitch("user.max_user_namespaces", "15000")};
  }
  if (error == EINVAL || (error == ENOSYS && !host.seccomp_filtered)) {
    return {"this kernel was built without user namespaces", "use a kernel with CONFIG_USER_NS=y"};
  }
  if (BuildsAsOrdinaryUser(host) && host.unprivileged_userns_clone == 0) {
    return {"kernel.unprivileged_userns_clone is 0: only root may create them",
            "allow them to users:\n" + SetSwitch("kernel.unprivileged_userns_clone", "1")};
  }
  if (host.chrooted) {
    return {"this process lives in a chroot, and the kernel refuses user namespaces there",
            "run cella outside of the chroot, or enter it by pivot_root (systemd-nspawn, bwrap, a container)"};
  }
  bool apparmor = BuildsAsOrdinaryUser(host) && host.apparmor_restrict_userns.value_or(0) != 0;
  // A container shows the switches of its host; its filter comes first, and without one both may be the reason.
  if (!host.container.empty() && (host.seccomp_filtered || !apparmor)) {
    return {fmt::format("the container ({}) forbids it, by its seccomp filter or security profile", host.container),
            ContainerFix(host)};
  }
  if (apparmor) {
    std::string fix = AppArmorFix(facts);
    if (!host.container.empty())
      fix += "\nor, where it is the container's own profile that forbids it, " + ContainerFix(host);
    return {"AppArmor restricts unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            std::move(fix)};
  }
  if (host.seccomp_filtered) {
    return {"a seccomp filter is in force around this process (a container, a systemd service, a snap)",
            fmt::format("allow {} in that filter, or start cella outside of it", kCalls)};
  }
  if (facts.kernel.basis_stage == BasisStage::kDropUser) {
    return {"root without CAP_SETUID and CAP_SETGID", "give it both capabilities, or start cella as an ordinary user"};
  }
  return {"the system forbids it",
          "look for a security module that does (SELinux: the boolean deny_userns; "
          "`journalctl -k` names denials), or ask an administrator"};
}

struct NamedAttempt {
  const char* name;
  const char* option;  // of the kernel's configuration
  const Attempt* attempt;
};

std::array<NamedAttempt, 5> OtherNamespaces(const KernelAttempts& kernel) {
  return {NamedAttempt{"pid", "CONFIG_PID_NS", &kernel.pid}, NamedAttempt{"net", "CONFIG_NET_NS", &kernel.net},
          NamedAttempt{"ipc", "CONFIG_IPC_NS", &kernel.ipc}, NamedAttempt{"uts", "CONFIG_UTS_NS", &kernel.uts},
          NamedAttempt{"cgroup", "CONFIG_CGROUPS", &kernel.cgroup}};
}

Check NotTried(std::string name, const Facts& facts) {
  std::string why =
      facts.kernel.timed_out ? "not tried: the kernel did not answer in time" : "not tried: it needs a user namespace";
  return {.name = std::move(name), .status = CheckStatus::kInfo, .detail = std::move(why)};
}

}  // namespace

std::string AppArmorProfile(std::string_view launcher) {
  std::string path(launcher);
  constexpr std::string_view kPlain = "/._+-";
  auto plain = [&](unsigned char c) { return std::isalnum(c) != 0 || kPlain.contains(static_cast<char>(c)); };
  if (!std::ranges::all_of(path, plain)) {
    path = "\"";
    for (char c : launcher) {
      if (std::string_view("*?[]{}^\\\"").contains(c)) path += '\\';
      path += c;
    }
    path += '"';
  }
  return fmt::format(
      "abi <abi/4.0>,\n"
      "include <tunables/global>\n"
      "profile cella-launch {} flags=(unconfined) {{\n"
      "  userns,\n"
      "  include if exists <local/cella-launch>\n"
      "}}\n",
      path);
}

Check JudgeUserNamespaces(const Facts& facts) {
  const KernelAttempts& kernel = facts.kernel;
  Check check{.name = "user_namespaces", .detail = ""};
  if (kernel.basis.ok()) {
    check.detail = facts.host.builder == Builder::kPrivileged ? "created by root, with mounts inside"
                   : facts.host.builder == Builder::kDropFirst
                       ? "created as an unprivileged user (root lacks CAP_SYS_ADMIN), with mounts inside"
                       : "an ordinary user may create them and mount inside";
    return check;
  }
  if (!kernel.basis.tried) {
    if (facts.proof.ok) {
      check.detail = "used by the run below";
      return check;
    }
    check.status = CheckStatus::kMissing;
    check.detail = kernel.timed_out ? "the attempt did not end in time" : "the attempt could not be made";
    check.fix = "try again; `journalctl -k` may name the reason";
    return check;
  }
  Diagnosis diagnosis = Diagnose(facts, kernel.basis.error);
  std::string failure = fmt::format("{} failed: {}", StageText(kernel.basis_stage), ErrnoText(kernel.basis.error));
  if (facts.proof.ok) {
    // AppArmor judges by program: what this one is refused, the launcher has.
    check.detail = fmt::format("allowed to cella-launch; other programs are refused ({})", diagnosis.why);
    return check;
  }
  check.status = CheckStatus::kMissing;
  check.detail = fmt::format("{}; {}", failure, diagnosis.why);
  check.fix = std::move(diagnosis.fix);
  return check;
}

Check JudgeNamespaces(const Facts& facts) {
  const KernelAttempts& kernel = facts.kernel;
  Check check{.name = "namespaces", .detail = "mount, pid, net, ipc, uts, cgroup"};
  std::vector<std::string> failed;
  std::vector<std::string> fixes;
  bool all_tried = kernel.together.tried;
  for (const NamedAttempt& each : OtherNamespaces(kernel)) {
    all_tried = all_tried && each.attempt->tried;
    if (!each.attempt->failed()) continue;
    failed.push_back(fmt::format("{} ({})", each.name, ErrnoText(each.attempt->error)));
    if (each.attempt->error == EINVAL) {
      fixes.push_back(fmt::format("use a kernel with {}=y", each.option));
    } else if (each.attempt->error == ENOSPC) {
      fixes.push_back("raise the limit:\n" + SetSwitch(fmt::format("user.max_{}_namespaces", each.name), "15000"));
    }
  }
  if (failed.empty() && kernel.together.ok()) return check;
  if (facts.proof.ok) {
    check.detail = fmt::format("used by the run below: {}", fmt::join(facts.proof.isolation.namespaces, ", "));
    return check;
  }
  if (failed.empty() && !kernel.together.failed()) return all_tried ? check : NotTried("namespaces", facts);
  check.status = CheckStatus::kMissing;
  if (!failed.empty()) {
    check.detail = fmt::format("cannot be created: {}", fmt::join(failed, ", "));
  } else {
    check.detail =
        fmt::format("each can be created, but not all at once by clone3: {}", ErrnoText(kernel.together.error));
  }
  if (fixes.empty())
    fixes.push_back(Diagnose(facts, Refused(kernel.together.error) ? EPERM : kernel.together.error).fix);
  // Without clone3 only a filter can be the reason: the kernel has it since 5.3.
  if (failed.empty() && kernel.together.error == ENOSYS) fixes = {ContainerFix(facts.host)};
  check.fix = fmt::format("{}", fmt::join(fixes, "\n"));
  return check;
}

Check JudgeProc(const Facts& facts) {
  const Attempt& proc = facts.kernel.proc;
  if (proc.ok() || (!proc.tried && facts.proof.ok && facts.proof.isolation.proc == "own")) {
    return {.name = "proc", .detail = "each jail has a fresh /proc of its own"};
  }
  bool seen_without = facts.proof.ok && facts.proof.isolation.proc == "none";
  if (!proc.tried && !seen_without) return NotTried("proc", facts);
  Check check{.name = "proc", .status = CheckStatus::kDegraded, .detail = ""};
  if (!Refused(proc.error) && !seen_without) {
    check.status = CheckStatus::kMissing;
    check.detail = fmt::format("a fresh /proc cannot be mounted: {}", ErrnoText(proc.error));
    return check;
  }
  check.detail =
      "a fresh /proc is refused, as parts of the one here are masked; jails run without /proc, which some programs "
      "miss";
  if (facts.host.container == "docker") {
    check.fix = "start the container with:\n  docker run --security-opt systempaths=unconfined …";
  } else if (facts.host.container == "podman") {
    check.fix = "start the container with:\n  podman run --security-opt unmask=ALL …";
  } else if (facts.host.container == "kubernetes") {
    check.fix =
        "in the securityContext of the pod's container set:\n"
        "  procMount: Unmasked    # needs hostUsers: false in the pod's spec";
  } else {
    check.fix = "remove what is mounted below /proc (`grep ' /proc/' /proc/self/mountinfo` lists it)";
  }
  return check;
}

Check JudgeOverlay(const Facts& facts) {
  const Attempt& overlay = facts.kernel.overlay;
  if (overlay.ok()) return {.name = "overlayfs", .detail = "can be mounted in a user namespace (not needed yet)"};
  if (!overlay.tried) return NotTried("overlayfs", facts);
  return {
      .name = "overlayfs",
      .status = CheckStatus::kInfo,
      .detail = fmt::format("cannot be mounted in a user namespace: {} (not needed yet)", ErrnoText(overlay.error))};
}

}  // namespace cella::doctor
