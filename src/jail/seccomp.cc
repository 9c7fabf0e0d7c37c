// Loads the filter that was compiled at build time from seccomp_policy/.
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {

#include "seccomp_filters.inc"

Failure LoadFilter(Filter filter) {
  sock_fprog program = {};
  // The kernel does not write through the pointer; its structure just is not const.
  auto use = [&program](const auto& table) {
    program.len = static_cast<unsigned short>(sizeof table / sizeof(sock_filter));
    program.filter = const_cast<sock_filter*>(table);
  };
  switch (filter) {
    case Filter::kDefault: use(kDefaultFilter); break;
    case Filter::kStrictMemory: use(kStrictMemoryFilter); break;
    case Filter::kZygote: use(kZygoteFilter); break;
  }
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? Fail(Stage::kSeccomp) : kOk;
}

}  // namespace cella::jail
