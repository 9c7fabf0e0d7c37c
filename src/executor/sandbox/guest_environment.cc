#include "executor/sandbox/guest_environment.h"

#include "executor/sandbox/root_tree.h"

namespace cella::executor {

Environment SandboxEnvironment(const language::Plan& plan) {
  Environment environment;
  environment.Set("PATH", kGuestPath);
  environment.Set("HOME", "/tmp");
  environment.Set("USER", "user");
  environment.Set("LOGNAME", "user");
  environment.Set("LANG", "C.UTF-8");
  environment.Set("TMPDIR", "/tmp");
  if (plan.python && !plan.python->virtual_env.empty()) environment.Set("VIRTUAL_ENV", plan.python->virtual_env);
  return environment;
}

}  // namespace cella::executor
