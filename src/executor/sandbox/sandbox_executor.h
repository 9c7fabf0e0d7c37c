// The default executor: every run in a jail of its own.
#pragma once

#include <string>

#include "executor/executor.h"
#include "os/cgroup.h"

namespace cella::executor {

class SandboxExecutor : public Executor {
 public:
  // `launcher`: path of cella-launch. The table outlives the executor.
  SandboxExecutor(async::Loop& loop, std::string launcher, const language::LanguageTable& table, language::HostEnv host,
                  os::CgroupHost cgroups)
      : loop_(loop),
        launcher_(std::move(launcher)),
        table_(table),
        host_(std::move(host)),
        cgroups_(std::move(cgroups)) {}

  async::Task<Result<Outcome>> Run(RunRequest request, EventSink& sink, async::Event& cancel) override;

 private:
  async::Loop& loop_;
  std::string launcher_;
  const language::LanguageTable& table_;
  language::HostEnv host_;
  os::CgroupHost cgroups_;
};

}  // namespace cella::executor
