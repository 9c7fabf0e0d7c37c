// A session of the library, shared by its handle and by what is on for it on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/notifier.h"
#include "library/host.h"
#include "library/tools.h"
#include "session/session.h"

namespace cella::library {

class RunCore;

class SessionCore : public std::enable_shared_from_this<SessionCore> {
 public:
  SessionCore(Host& host, std::unique_ptr<session::Session> session, std::shared_ptr<server::SessionTools> tools);

  // These never change, and any thread may ask.
  const std::string& id() const { return id_; }
  const Isolation& isolation() const { return isolation_; }
  bool Supports(std::string_view word) const;
  const std::shared_ptr<ServingThreads>& serving() const { return serving_; }
  // By a thread of the application, which waits for the end of the run and serves its calls.
  Result<RunResult> RunToEnd(RunSpec spec);

  // The rest on the loop.
  // Calls `work` with the session, which stays until it is done. kClosed: the session was closed.
  template <typename T>
  async::Task<Result<T>> Use(std::function<async::Task<Result<T>>(session::Session&)> work) {
    CO_TRY_VOID(CheckOpen());
    ++uses_;
    auto answer = co_await async::Caught(work(*session_));
    LeaveUse();
    co_return answer;
  }
  // Submits the run; its events go to `run`.
  Status Submit(RunSpec spec, const std::shared_ptr<RunCore>& run);
  // Functions that the code calls from its next run on.
  Status AddTool(const server::Tool& tool, std::shared_ptr<const ToolFunction> function);
  // Ends the guest and waits until it is gone. Again: waits for the same.
  async::Task<void> Close();

 private:
  Status CheckOpen() const;
  void HandOn(ToolCall call);
  void LeaveUse();
  async::Task<void> Watch(std::shared_ptr<RunCore> run, std::shared_ptr<session::Run> on);

  Host& host_;
  std::unique_ptr<session::Session> session_;
  const std::string id_;
  const Isolation isolation_;
  const std::shared_ptr<ServingThreads> serving_ = std::make_shared<ServingThreads>();
  std::vector<std::string> capabilities_;
  bool closing_ = false;
  size_t uses_ = 0;
  async::Notifier unused_;
  async::Event closed_;
  std::vector<std::weak_ptr<RunCore>> runs_;
  std::shared_ptr<server::SessionTools> tools_;
  std::unique_ptr<ToolSet> tool_set_;  // null: no tool was added
};

}  // namespace cella::library
