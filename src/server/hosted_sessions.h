// All sessions of the server that are alive. Opens them within the quotas, ends them when their time is up, their
// client deletes them or the server drains. Lives on the loop; Close before it goes away.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task_group.h"
#include "server/hosted_session.h"
#include "server/run_files.h"

namespace cella::server {

class HostedSessions {
 public:
  explicit HostedSessions(async::Loop& loop) : tending_(loop) {}

  async::Task<Answer<std::shared_ptr<HostedSession>>> Open(Hub& hub, SessionSpec spec, const std::string& owner);

  // 404 for what is not there, and for what belongs to another client.
  Answer<std::shared_ptr<HostedSession>> Find(std::string_view id, std::string_view owner) const;
  std::vector<std::shared_ptr<HostedSession>> All() const;
  RunFiles& files() { return files_; }
  size_t size() const { return sessions_.size(); }

  // Closes a session that was opened for one run, in the background; its share is given back afterwards.
  void Retire(std::unique_ptr<session::Session> session, Quota::Share share);

  // Stops all of them, waits until they are gone.
  async::Task<void> Close(std::string because);

 private:
  async::Task<void> Tend(Hub& hub, std::shared_ptr<HostedSession> session);

  std::map<std::string, std::shared_ptr<HostedSession>, std::less<>> sessions_;
  size_t opening_ = 0;
  bool closing_ = false;
  RunFiles files_;
  async::TaskGroup tending_;
};

}  // namespace cella::server
