#include "confine/launch_errors.h"

#include <unistd.h>

#include "os/io.h"

namespace cella::confine {
namespace {

// Ubuntu since 23.10: an unconfined program gets a user namespace without capabilities, and fails a step later.
bool AppArmorRestrictsUserNamespaces() {
  auto value = os::ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 16);
  return value && value->starts_with('1');
}

std::string Remedy(jail::Stage stage, int error) {
  using jail::Stage;
  bool refused = error == EPERM || error == EACCES;
  bool namespaces = stage == Stage::kUserNamespace || stage == Stage::kMountNamespace || stage == Stage::kClone ||
                    stage == Stage::kMapIds || stage == Stage::kTree;
  if (namespaces && refused && getuid() != 0 && AppArmorRestrictsUserNamespaces()) {
    return "AppArmor restricts user namespaces here: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or "
           "install an AppArmor profile for cella";
  }
  if (stage == Stage::kUserNamespace && error == ENOSPC) {
    return "no more user namespaces are allowed: sudo sysctl user.max_user_namespaces=10000";
  }
  if (namespaces && refused) {
    return "the system forbids new namespaces: see 'cella doctor' (inside a container: run it with "
           "--security-opt seccomp=unconfined)";
  }
  if (stage == Stage::kIdmap) {
    return "this file system cannot map owners: run cella as the directory's owner instead of root, or copy files with "
           "--file and --out";
  }
  if (stage == Stage::kOpenSource && error == ENOENT) return "check the path";
  if (error == ELOOP) return "a symbolic link is in its way, in a directory that guests can write to";
  return "see 'cella doctor'";
}

}  // namespace

Error ExplainBuildFailure(const jail::Report& report) {
  std::string what = jail::StageText(report.stage);
  if (report.detail[0] != '\0') what += fmt::format(" ('{}')", report.detail);
  bool missing = report.error == ENOENT && report.stage == jail::Stage::kOpenSource;
  return Error{missing ? ErrorCode::kNotFound : ErrorCode::kUnsupported,
               fmt::format("the sandbox could not {}: {}; {}", what, ErrnoText(report.error),
                           Remedy(report.stage, report.error)),
               report.error};
}

Error ExplainExecFailure(const jail::Report& report) {
  if (report.stage == jail::Stage::kExec) {
    ErrorCode code = report.error == ENOENT || report.error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kPermission;
    return Error{code, fmt::format("'{}' could not be started: {}", report.detail, ErrnoText(report.error)),
                 report.error};
  }
  std::string what = jail::StageText(report.stage);
  if (report.detail[0] != '\0') what += fmt::format(" ({})", report.detail);
  return Error{ErrorCode::kUnsupported, fmt::format("could not {}: {}", what, ErrnoText(report.error)), report.error};
}

Error NoDescriptors() {
  return Error{ErrorCode::kExhausted,
               "no descriptors are left: raise the limit of open files (ulimit -n), or run fewer at once", 0};
}

}  // namespace cella::confine
