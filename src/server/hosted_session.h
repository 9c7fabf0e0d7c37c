// One session of the server: the engine's session, whose it is, and its runs. Made and ended by HostedSessions;
// requests that work with it hold a reference meanwhile, so that it may be closed under them, but not freed. Lives on
// the loop.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/task_group.h"
#include "installer/session_packages.h"
#include "server/admission.h"
#include "server/api_error.h"
#include "server/hosted_run.h"
#include "server/hub.h"
#include "server/quota.h"
#include "server/session_environment.h"
#include "server/session_tools.h"
#include "session/session.h"
#include "storage/spaces.h"

namespace cella::server {

// Why a session ended that its client deleted.
inline constexpr const char* kDeleted = "it was deleted";

class HostedSession {
 public:
  HostedSession(Hub& hub, SessionSpec spec, std::string owner, Quota::Share share,
                std::unique_ptr<session::Session> session, std::shared_ptr<installer::SessionPackages> packages,
                std::shared_ptr<SessionTools> tools, EnvironmentLease environment,
                std::shared_ptr<storage::SessionStorage> storage);

  const std::string& id() const { return session_->id(); }
  const std::string& owner() const { return owner_; }
  const SessionSpec& spec() const { return spec_; }
  session::Session& engine() { return *session_; }

  // "idle", "running", "closed" or "lost".
  std::string_view status() const;
  nlohmann::ordered_json Describe() const;

  // One of the last runs; older ones are in the registry.
  std::shared_ptr<HostedRun> FindRun(std::string_view id) const;
  // The run whose turn it is; null: none.
  std::shared_ptr<HostedRun> current() const;

  // To the run that is on. kInvalid: nothing waits for input.
  Status Reply(std::optional<std::string> text);

  // Called with every run that is accepted, until Unlisten; for those who follow the session.
  using Listener = std::function<void(const std::shared_ptr<HostedRun>&)>;
  uint64_t Listen(Listener listener);
  void Unlisten(uint64_t key) { listeners_.erase(key); }

  // What it adds to those of its Python.
  installer::SessionPackages& packages() { return *packages_; }
  // The key of the environment that it was opened with; empty: none.
  std::string environment_key() const { return environment_ ? environment_->manifest.key : ""; }
  // Functions of its client; null where code cannot call the host.
  SessionTools* tools() const { return session_->can_call() ? tools_.get() : nullptr; }
  // Null: it has none.
  const std::shared_ptr<storage::SessionStorage>& storage() const { return storage_; }

  // For the service that runs code (run_service.h).
  // The registry is being told of the run, which begins afterwards: a repeated request may find it there before.
  void Expect(const std::shared_ptr<HostedRun>& run) { expected_[run->id()] = run; }
  void StopExpecting(const std::string& id) { expected_.erase(id); }
  void Keep(const std::shared_ptr<HostedRun>& run);
  void Announce(const std::shared_ptr<HostedRun>& run);
  void NoteEnd(const RunResult& result);
  void ForgetOldRuns();
  async::TaskGroup& tasks() { return tasks_; }

  // Takes no more runs and cancels the one that is on. HostedSessions does the rest.
  void Stop(std::string because);
  // Waits until its time is up or a client stopped it.
  async::Task<bool> Stopping() { return session_->Closing(); }
  // Ends everything that belongs to it. Once, after Stopping.
  async::Task<void> Finish();
  // It is not in the list any more; for those who wait for that.
  void MarkGone() { gone_.Set(); }
  async::Task<bool> Gone() { return gone_.Wait(); }
  // After Gone: whether the registry knows.
  const Status& ended() const { return ended_; }

 private:
  Hub& hub_;
  const SessionSpec spec_;
  const std::string owner_;
  Quota::Share share_;
  std::unique_ptr<session::Session> session_;
  const std::chrono::system_clock::time_point created_ = std::chrono::system_clock::now();
  std::map<std::string, std::shared_ptr<HostedRun>, std::less<>> runs_;
  std::map<std::string, std::shared_ptr<HostedRun>, std::less<>> expected_;
  std::deque<std::string> order_;  // of runs_, oldest first
  std::map<uint64_t, Listener> listeners_;
  uint64_t last_listener_ = 0;
  std::shared_ptr<installer::SessionPackages> packages_;
  std::shared_ptr<SessionTools> tools_;
  const EnvironmentLease environment_;
  std::shared_ptr<storage::SessionStorage> storage_;
  bool lost_ = false;
  Status ended_;
  async::TaskGroup tasks_;
  async::Event gone_;
};

}  // namespace cella::server
