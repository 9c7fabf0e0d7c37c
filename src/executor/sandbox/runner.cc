#include "executor/sandbox/runner.h"

#include "os/pidfd.h"

namespace cella::executor {

int Runner::Group() {
  if (group == 0 && pidfd) {
    if (auto pids = os::NamespacePids(pidfd.get())) group = pids->back();
  }
  return group;
}

}  // namespace cella::executor
