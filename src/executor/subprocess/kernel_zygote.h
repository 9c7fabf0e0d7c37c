// Zygotes of kernels that run without a jail: an interpreter in which ipykernel is imported, and that copies itself.
// Each copy is the root of one session's process tree, and the session's kernel is a fork of the copy. Lives on the
// loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/gate.h"
#include "async/task_group.h"
#include "confine/launch_context.h"
#include "executor/local/scratch.h"
#include "os/process.h"

namespace cella::executor {

// What the kernels of one zygote have in common.
struct KernelKind {
  std::string base;                // the interpreter, in no virtual environment
  std::string version;             // of it
  std::vector<std::string> sites;  // where the packages are
  // The policy's environment variables, by which the kind is told from others.
  std::vector<std::pair<std::string, std::string>> named;
  bool inherit_env = false;
  std::shared_ptr<void> lease;  // on the environment

  std::string Key() const;
};

class KernelZygote {
 public:
  // Starts the interpreter in a virtual environment of its own below `scratch`, and waits until it serves. `env` is
  // that of a session whose own virtual environment is `venv`.
  static async::Task<Result<std::unique_ptr<KernelZygote>>> Start(confine::LaunchContext& context, LocalScratch scratch,
                                                                  const KernelKind& kind,
                                                                  const std::vector<std::string>& env,
                                                                  const std::string& venv);
  // A copy, which awaits the spec of its tree as the launcher does. kClosed: the zygote is gone.
  async::Task<Result<confine::InitProcess>> Copy();

 private:
  KernelZygote(async::Loop& loop, LocalScratch scratch, os::Process process, UniqueFd control)
      : loop_(loop),
        scratch_(std::move(scratch)),
        process_(std::move(process)),
        control_(loop, std::move(control), async::Sharing::kOurs),
        turns_(loop, 1) {}

  struct Answer {
    jail::Report report = {};
    std::string text;  // instead of a report
    UniqueFd fd;
  };
  async::Task<Result<Answer>> Receive();

  async::Loop& loop_;
  LocalScratch scratch_;  // removed after the process is gone
  os::Process process_;
  async::Descriptor control_;
  async::Gate turns_;
  bool gone_ = false;
};

// The zygotes of an executor: few, and none that was not used lately. Close it before it goes away.
class KernelZygotes {
 public:
  KernelZygotes(confine::LaunchContext& context, std::string tmpdir)
      : context_(context), tmpdir_(std::move(tmpdir)), tasks_(context.loop), starting_(context.loop, 1) {}

  // A copy of the kind's zygote; nothing: there is none, and the kernel starts by exec.
  async::Task<std::optional<confine::InitProcess>> Take(const KernelKind& kind);
  // Starts the kind's zygote if there is none.
  async::Task<void> Prepare(const KernelKind& kind, const std::vector<std::string>& env, const std::string& venv);

  size_t size() const { return zygotes_.size(); }
  async::Task<void> Close();

 private:
  struct Entry {
    std::shared_ptr<KernelZygote> zygote;
    std::vector<std::pair<std::string, int64_t>> stamps;  // of the packages, when they were imported
    std::shared_ptr<void> lease;
    async::TimePoint used;
  };

  async::Task<void> EndUnused();

  confine::LaunchContext& context_;
  const std::string tmpdir_;
  std::map<std::string, Entry> zygotes_;
  std::map<std::string, async::TimePoint> failed_;  // kinds that cannot have one, for a while
  async::TaskGroup tasks_;
  async::Gate starting_;
  bool watching_ = false;
  bool closing_ = false;
};

}  // namespace cella::executor
