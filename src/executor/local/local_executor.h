// Trusted code on the host's file system: no jail, but still a clean environment, limits, output caps, and an end of
// the whole process tree.
#pragma once

#include <string>

#include "executor/environment.h"
#include "executor/executor.h"
#include "os/cgroup.h"

namespace cella::executor {

// What of the host's environment a local program gets without asking, beside PATH and HOME.
struct LocalHost {
  std::string user, lang, tmpdir;
  std::vector<std::pair<std::string, std::string>> whole;  // for inherit_env
};

class LocalExecutor : public Executor {
 public:
  LocalExecutor(async::Loop& loop, std::string launcher, const language::LanguageTable& table, language::HostEnv host,
                  os::CgroupHost cgroups, LocalHost local)
      : loop_(loop),
        launcher_(std::move(launcher)),
        table_(table),
        host_(std::move(host)),
        cgroups_(std::move(cgroups)),
        local_(std::move(local)) {}

  async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) override;

 private:
  Environment BaseEnvironment(const RunRequest& request, const language::Plan& plan) const;

  async::Loop& loop_;
  std::string launcher_;
  const language::LanguageTable& table_;
  language::HostEnv host_;
  os::CgroupHost cgroups_;
  LocalHost local_;
};

}  // namespace cella::executor
