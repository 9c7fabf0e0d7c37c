#include "confine/jail_env_vars.h"

#include <fmt/format.h>

#include "confine/root_tree.h"

namespace cella::confine {

EnvVars JailEnvVars(const language::Plan& plan) {
  EnvVars environment;
  environment.Set("PATH", plan.python ? fmt::format("{}:{}", kGuestPath, kPythonLinkDirectory) : kGuestPath);
  environment.Set("HOME", "/tmp");
  environment.Set("USER", "user");
  environment.Set("LOGNAME", "user");
  environment.Set("LANG", "C.UTF-8");
  environment.Set("TMPDIR", "/tmp");
  if (plan.python && !plan.python->virtual_env.empty()) environment.Set("VIRTUAL_ENV", plan.python->virtual_env);
  return environment;
}

}  // namespace cella::confine
