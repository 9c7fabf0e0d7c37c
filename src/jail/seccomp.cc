// Loads the filter that was compiled at build time from seccomp_policy/.
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {

#include "seccomp_filters.inc"

Failure LoadFilter(Filter filter) {
  bool strict = filter == Filter::kStrictMemory;
  // The kernel does not write through the pointer; its structure just is not const.
  sock_fprog program = {};
  program.len = static_cast<unsigned short>(strict ? sizeof kStrictMemoryFilter / sizeof(sock_filter)
                                                   : sizeof kDefaultFilter / sizeof(sock_filter));
  program.filter = const_cast<sock_filter*>(strict ? kStrictMemoryFilter : kDefaultFilter);
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? Fail(Stage::kSeccomp) : kOk;
}

}  // namespace cella::jail
