#include "executor/local/host_variables.h"

namespace cella::executor {

confine::EnvVars LocalVariables(const language::HostEnv& host, const LocalHost& local, const Policy& policy,
                                const language::Plan& plan) {
  confine::EnvVars variables;
  if (policy.inherit_env) {
    for (const auto& [name, value] : local.whole) variables.Set(name, value);
  } else {
    if (!host.home.empty()) variables.Set("HOME", host.home);
    if (!local.user.empty()) {
      variables.Set("USER", local.user);
      variables.Set("LOGNAME", local.user);
    }
    variables.Set("LANG", local.lang.empty() ? "C.UTF-8" : local.lang);
    variables.Set("TMPDIR", local.tmpdir);
  }
  variables.Set("PATH", host.path);
  if (plan.python && !plan.python->virtual_env.empty()) {
    variables.Set("VIRTUAL_ENV", plan.python->virtual_env);
  }
  return variables;
}

}  // namespace cella::executor
