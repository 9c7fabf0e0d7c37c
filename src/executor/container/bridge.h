// The supervisor's side of an agent. To a confine::Jail it looks like the init of a local process tree: the same
// control socket, pipes and session sockets, whose bytes travel as frames over the container's stream. Lives on the
// loop. What comes from the agent is bounded and checked.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/wire.h"
#include "async/event.h"
#include "async/notifier.h"
#include "async/task_group.h"
#include "base/result.h"
#include "docker/attached_stream.h"
#include "executor/container/bridged_program.h"
#include "os/io.h"

namespace cella::executor {

// Where calls of several containers, one after the other, arrive.
struct CallListener {
  UniqueFd listener;
  UniqueFd path;  // by which connections are made to it
};

class AgentBridge : public FrameSender {
 public:
  struct Options {
    std::string token;  // empty: none is wanted
    bool is_session = false;
    bool stays = false;  // the container outlives the stream
    jail::WatchLimits watch = {};
    std::shared_ptr<CallListener> calls{};  // empty: its own. The first container that listens fills it
  };
  // Says hello and waits for the agent. The container has been started.
  static async::Task<Result<std::unique_ptr<AgentBridge>>> Open(async::Loop& loop, docker::AttachedStream stream,
                                                                Options options, async::TimePoint deadline);
  ~AgentBridge() override = default;
  AgentBridge(const AgentBridge&) = delete;
  AgentBridge& operator=(const AgentBridge&) = delete;

  // The socket of a Jail; once.
  UniqueFd TakeControl() { return std::move(control_ours_); }
  const agent::Ready& ready() const { return ready_; }
  // What the container's cgroup counted at the last report.
  const agent::Counters& counters() const { return counters_; }
  bool is_gone() const { return gone_.is_set(); }
  // Until the stream has ended.
  async::Task<bool> Gone() { return gone_.Wait(); }
  // What the agent wrote to its standard error, for messages.
  const std::string& errors() const { return stream_.errors(); }

  struct Answer {
    agent::Answer head;
    std::string content;
  };
  // A file operation; the payload as in agent/wire.h. An Error is the agent's, or the container is gone.
  async::Task<Result<Answer>> Ask(agent::Kind kind, std::string payload);
  // Many operations in their order, of which only the failure of the first that fails is reported. The caller bounds
  // their size.
  async::Task<Status> AskAll(agent::Kind kind, std::vector<std::string> payloads);

  // Ends the stream, at which the agent ends.
  void Cut() { stream_.Kill(); }
  // Ends the session, and waits until nothing of the bridge is left. Before the bridge is destroyed.
  async::Task<void> Close();

 private:
  AgentBridge(async::Loop& loop, docker::AttachedStream stream, os::SocketPair control);

  void Post(agent::Kind kind, uint32_t channel, std::string_view a, std::string_view b = {}) override;
  void ReportToJail(const jail::Report& report) override;
  void CallEnded() override { has_ended_.Notify(); }

  async::Task<void> ReadStream();
  async::Task<void> WriteStream();
  async::Task<void> ServeControl();
  async::Task<void> Ping();
  bool TakeFrame(const agent::Header& header, std::string_view payload);
  bool TakeReport(uint32_t tag, std::string_view payload);
  bool TakeRequest();
  Status Listen();
  Status MakeListener();
  void Connect(uint32_t tag);
  bool TakeCopy(uint32_t tag, std::string_view payload);
  async::Task<void> Reap();
  void StartProgram(const jail::Request& request, std::vector<UniqueFd> fds);
  async::Task<void> End();
  // The session is over.
  void Leave();

  struct Pending {
    explicit Pending(async::Loop& loop) : arrived(loop) {}
    async::Event arrived;
    std::optional<Answer> answer;
  };

  std::shared_ptr<Pending> Pose(agent::Kind kind, std::string_view payload);
  async::Task<Result<Answer>> Await(std::shared_ptr<Pending> pending);

  async::Loop& loop_;
  docker::AttachedStream stream_;
  UniqueFd control_ours_;
  async::Descriptor control_;
  agent::Ready ready_ = {};
  agent::Counters counters_ = {};
  async::Event is_ready_;
  async::Event gone_;
  async::Notifier has_frames_;
  std::string frames_;  // to be sent
  std::map<uint32_t, std::unique_ptr<BridgedProgram>> programs_;
  std::map<uint32_t, std::shared_ptr<Pending>> pending_;
  uint32_t last_question_ = 0;
  UniqueFd listener_;       // of the call socket on this side, until the Jail gets it
  UniqueFd listener_path_;  // by which connections of the guest are made to it
  std::shared_ptr<CallListener> calls_;
  async::Notifier has_ended_;  // a program
  async::TimePoint heard_{};   // of the agent
  bool stays_ = false;
  bool closing_ = false;
  async::TaskGroup tasks_;
};

}  // namespace cella::executor
