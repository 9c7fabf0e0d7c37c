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

// What a session of the server consists of.
struct SessionParts {
  SessionSpec spec;
  std::string owner;
  Quota::Share share;
  std::unique_ptr<session::Session> session;
  std::shared_ptr<installer::SessionPackages> packages;  // what it adds to those of its Python
  std::shared_ptr<SessionTools> tools;
  EnvironmentLease environment;                      // null: it was opened without one
  std::shared_ptr<storage::SessionStorage> storage;  // null: it has none
};

class HostedSession {
 public:
  HostedSession(Hub& hub, SessionParts parts);

  const std::string& id() const { return parts_.session->id(); }
  const std::string& owner() const { return parts_.owner; }
  const SessionSpec& spec() const { return parts_.spec; }
  session::Session& engine() { return *parts_.session; }

  // "idle", "running", "closed" or "lost".
  std::string_view status() const;
  nlohmann::ordered_json Describe() const;

  // One of the last runs; older ones are in the registry.
  std::shared_ptr<HostedRun> FindRun(std::string_view id) const;
  // The run whose turn it is; null: none.
  std::shared_ptr<HostedRun> current() const;

  // Called with every run that is accepted, until Unlisten; for channels that follow the session.
  using Listener = std::function<void(const std::shared_ptr<HostedRun>&)>;
  uint64_t Listen(Listener listener);
  void Unlisten(uint64_t key) { listeners_.erase(key); }

  installer::SessionPackages& packages() { return *parts_.packages; }
  // The key of the environment that it was opened with; empty: none.
  std::string environment_key() const { return parts_.environment ? parts_.environment->manifest.key : ""; }
  // Functions of its client; null where code cannot call the host.
  SessionTools* tools() const { return parts_.session->can_call() ? parts_.tools.get() : nullptr; }
  // Null: it has none.
  const std::shared_ptr<storage::SessionStorage>& storage() const { return parts_.storage; }

  // For the service that runs code (run_service.h).
  // The registry is being told of the run, which begins afterwards: a repeated request may find it there before.
  // Of two runs with the same id, which a client may choose, the first one is found.
  void Expect(const std::shared_ptr<HostedRun>& run) { expected_.try_emplace(run->id(), run); }
  void StopExpecting(const std::string& id, const HostedRun* run);
  void Keep(const std::shared_ptr<HostedRun>& run);
  void Announce(const std::shared_ptr<HostedRun>& run);
  void NoteEnd(const RunResult& result);
  void ForgetOldRuns();
  async::TaskGroup& tasks() { return tasks_; }

  // Takes no more runs and cancels the one that is on. HostedSessions does the rest.
  void Stop(std::string because);
  // Waits until its time is up or a client stopped it.
  async::Task<bool> Stopping() { return parts_.session->Closing(); }
  // Ends everything that belongs to it. Once, after Stopping.
  async::Task<void> Finish();
  // It is not in the list any more; ends every wait for Gone.
  void MarkGone() { gone_.Set(); }
  async::Task<bool> Gone() { return gone_.Wait(); }
  // After Gone: whether the registry knows.
  const Status& ended() const { return ended_; }

 private:
  Hub& hub_;
  SessionParts parts_;
  const std::chrono::system_clock::time_point created_ = std::chrono::system_clock::now();
  std::map<std::string, std::shared_ptr<HostedRun>, std::less<>> runs_;
  std::map<std::string, std::shared_ptr<HostedRun>, std::less<>> expected_;
  std::deque<std::string> order_;  // of runs_, oldest first
  std::map<uint64_t, Listener> listeners_;
  uint64_t last_listener_ = 0;
  bool lost_ = false;
  Status ended_;
  async::TaskGroup tasks_;
  async::Event gone_;
};

}  // namespace cella::server
