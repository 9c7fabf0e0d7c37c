// One live kernel: its process in a place of its own, and the client of its sockets. What it prints beside its
// protocol is read and forgotten, but for the end. Lives on the loop; End it before it is destroyed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/ready_set.h"
#include "executor/subprocess/kernel_place.h"
#include "jupyter/client.h"
#include "jupyter/kernelspec.h"
#include "os/cgroup.h"
#include "run/stop.h"

namespace cella::executor {

// How a kernel is started.
struct KernelCommand {
  std::string name;               // for messages and the connection file
  std::vector<std::string> argv;  // {connection_file} is replaced
  std::vector<std::string> env;   // "K=V"
  std::string search_path;
  std::string cwd;
  jupyter::InterruptMode interrupt_mode = jupyter::InterruptMode::kSignal;
};

// What the kernel reported of itself.
struct KernelInfo {
  std::string language;        // "python", "R"
  std::string implementation;  // "ipython"
};

class KernelProcess {
 public:
  // Starts the kernel and waits until it answers, at most until `deadline`. Context and place outlive the process.
  static async::Task<Result<std::unique_ptr<KernelProcess>>> Start(confine::LaunchContext& context, KernelPlace& place,
                                                                   const confine::LimitPlan& limits,
                                                                   KernelCommand command, KernelDirectory directory,
                                                                   bool tcp, async::TimePoint deadline,
                                                                   run::StopToken stop);
  KernelProcess(const KernelProcess&) = delete;
  KernelProcess& operator=(const KernelProcess&) = delete;
  ~KernelProcess() = default;

  const KernelInfo& info() const { return info_; }
  jupyter::Client& client() { return *client_; }
  const std::string& connection_file() const { return connection_file_; }

  // Until something came from the kernel, it ended, Wake was called or the time came.
  async::Task<void> Wait(async::TimePoint until);
  void Wake() { ready_.Wake(); }

  bool ended() const { return wait_status_.has_value() || place_.jail.gone(); }
  bool place_gone() const { return place_.jail.gone(); }
  std::optional<int> wait_status() const { return wait_status_; }
  // The end of what it wrote to its own standard error.
  const std::string& last_words() const { return last_words_; }
  jail::KillReason TakeBreach() { return place_.jail.TakeBreach(); }

  // A request to the kernel that is not the user's: the reply. Not while a run is on.
  async::Task<Result<jupyter::Message>> Query(jupyter::Channel channel, std::string_view type, std::string content,
                                              async::TimePoint deadline);

  void Interrupt();
  // Waits until an interrupt that was sent can no longer reach another run.
  async::Task<void> AwaitInterrupt(async::TimePoint deadline);
  // Of a kernel that said that it exits: it is asked to, and killed at the deadline.
  async::Task<void> AwaitExit(async::TimePoint deadline);
  void Kill() { place_.jail.KillGuest(group_); }
  void Destroy() { place_.jail.KillInit(); }
  // Limits of time are those of a run.
  void BeginRun() { place_.jail.WatchRun(group_); }
  void EndRun() { place_.jail.WatchRun(0); }

  const os::CgroupMeter& meter() const { return place_.meter; }

  // Ends all processes of the place, and waits for that.
  async::Task<void> End();

 private:
  KernelProcess(KernelPlace& place, KernelCommand command, KernelDirectory directory, async::ReadySet ready);

  Status Exec(const confine::LimitPlan& limits);
  async::Task<Status> AwaitStart(async::TimePoint deadline, run::StopToken stop);
  async::Task<Status> AwaitAnswer(async::TimePoint deadline, run::StopToken stop);
  void ReadPipe(UniqueFd& pipe);
  void TakeReports();
  Error Died(std::string_view when) const;

  KernelPlace& place_;
  const KernelCommand command_;
  const KernelDirectory directory_;
  const std::string connection_file_;  // as the kernel sees it
  async::ReadySet ready_;
  UniqueFd out_, err_;
  std::string last_words_;
  uint32_t tag_ = 0;
  int group_ = 0;
  std::optional<int> wait_status_;
  std::unique_ptr<jupyter::Client> client_;
  KernelInfo info_;
};

}  // namespace cella::executor
