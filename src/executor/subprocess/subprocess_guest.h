// A session of the subprocess executor: one kernel, which is started anew when it is gone, and the files around it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "confine/workspace.h"
#include "executor/local/scratch.h"
#include "executor/subprocess/kernel_choice.h"
#include "executor/subprocess/kernel_process.h"
#include "executor/subprocess/kernel_zygote.h"
#include "executor/subprocess/session_python.h"
#include "run/executor.h"

namespace cella::executor {

class SubprocessGuest : public run::Guest,
                        public run::Assistant,
                        public run::Resettable,
                        public run::CallSocket,
                        public run::Packages {
 public:
  // What the guests of an executor share.
  struct Host {
    confine::LaunchContext& context;
    const LocalHost& local;
    const jupyter::KernelHost& kernels;
    KernelEnvironments* environments;    // null: none are built
    std::set<std::string>& tcp_kernels;  // kernelspecs that started only with ports
    KernelZygotes& zygotes;
    bool ahead = false;  // made before a client asks: there is time to start a zygote
  };
  // Starts the kernel. What is referred to outlives the guest.
  static async::Task<Result<std::unique_ptr<SubprocessGuest>>> Open(Host host, LocalScratch scratch,
                                                                    run::GuestSpec spec, run::StopToken stop);
  // One that was made ahead: whether its kernel still waits, and for whom it is then.
  async::Task<bool> IsReady();
  void Adopt(run::GuestSpec spec) {
    spec_ = std::move(spec);
    host_.ahead = false;
  }

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  bool takes_values(std::string_view language) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;

  run::Assistant* assistant() override { return this; }
  async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                       size_t cursor) override;

  run::Resettable* resettable() override { return this; }
  async::Task<Status> Reset() override;

  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override;

  run::Packages* packages() override { return takes_packages_ ? this : nullptr; }
  async::Task<Result<std::string>> Use(std::string directory) override;
  std::optional<Result<run::GuestPython>> python() const override;

  const os::Directory* workspace() const override { return files_ ? &files_->directory() : nullptr; }
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<run::GuestUsage> MeasureUsage() override;

 private:
  SubprocessGuest(Host host, LocalScratch scratch, run::GuestSpec spec)
      : host_(host), context_(host.context), scratch_(std::move(scratch)), spec_(std::move(spec)) {}

  async::Task<Status> Choose(run::StopToken stop);
  Status OpenWorkdir();
  async::Task<std::optional<confine::InitProcess>> TakeCopy();
  async::Task<Status> EnsurePlace();
  async::Task<Status> EnsureKernel(run::StopToken stop);
  async::Task<Result<std::unique_ptr<KernelProcess>>> StartKernel(bool tcp, run::StopToken stop);
  async::Task<Result<std::unique_ptr<KernelProcess>>> StartWithPorts(run::StopToken stop);
  async::Task<void> EndKernel();
  async::Task<Status> Prepare();
  std::string CallSocketPath() const;
  std::string RunnersSeen() const;
  bool MayAddPackages() const;
  void AddPackagePrograms(confine::EnvVars* variables) const;
  std::string PackageVenv() const;
  std::string PackagesCode() const;
  async::Task<Status> ShowPackages();
  async::Task<Status> AssignValues(const std::vector<Variable>& variables);
  async::Task<Status> RunQuietly(std::string code, async::TimePoint deadline);
  Status CheckLanguage(const std::string& asked) const;

  // In the environment that the policy names; false: that is not what is missing.
  async::Task<Result<bool>> AddKernelTo(const Error& failure, run::StopToken stop);

  Host host_;
  confine::LaunchContext& context_;
  LocalScratch scratch_;
  run::GuestSpec spec_;
  confine::LimitPlan limits_;
  std::optional<confine::Workspace> files_;
  Isolation isolation_;
  SessionPython python_;  // of a session without a kernelspec
  KernelChoice choice_;
  // Of a session whose kernel can be forked; and the environment variables of its zygote.
  std::optional<KernelKind> kind_;
  std::vector<std::string> zygote_env_;
  std::unique_ptr<KernelPlace> place_;
  std::unique_ptr<KernelProcess> kernel_;
  bool takes_packages_ = false;    // an IPython kernel whose session may have packages
  std::string packages_;           // where the kernel finds them; empty: nowhere, or among its own
  bool packages_changed_ = false;  // since the kernel was told
  std::string venv_layer_;         // on the host: what was copied into a virtual environment that is kept
  std::optional<std::set<std::string>> venv_names_;  // of packages that it had before
  unsigned starts_ = 0;
  bool reports_files_ = true;
};

}  // namespace cella::executor
