// Functions of the application that the code of one session calls, as a provider of server::SessionTools. The provider
// lives on the loop; the functions run in the application's threads (run_core.h).
#pragma once

#include <cella.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "run/host_call.h"
#include "server/session_tools.h"

namespace cella::library {

// One function. Its context is released with it, by whichever thread is last.
class ToolFunction {
 public:
  ToolFunction(cella_tool tool, void* context, void (*release)(void*))
      : tool_(tool), context_(context), release_(release) {}
  ToolFunction(const ToolFunction&) = delete;
  ToolFunction& operator=(const ToolFunction&) = delete;
  ~ToolFunction() {
    if (release_ != nullptr) release_(context_);
  }
  void operator()(cella_call* call) const { tool_(call, context_); }
  explicit operator bool() const { return tool_ != nullptr; }

 private:
  const cella_tool tool_;
  void* const context_;
  void (*const release_)(void*);
};

// The threads that serve calls of one session. Any thread may ask.
class ServingThreads {
 public:
  void Enter();
  void Leave();
  bool HasThis() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::thread::id> threads_;
};

// A call on its way to a thread of the application.
struct ToolCall {
  std::string name;
  std::shared_ptr<ServingThreads> serving;
  std::shared_ptr<const ToolFunction> function;
  std::string arguments;                      // JSON text of the guest
  std::function<void(run::HostReply)> reply;  // any thread
};
// Calls the function and replies.
void Serve(ToolCall call);

class ToolSet : public server::ToolProvider {
 public:
  // `hand_on` gives a call to the run that is on.
  ToolSet(std::shared_ptr<server::SessionTools> tools, std::function<void(ToolCall)> hand_on)
      : tools_(std::move(tools)), hand_on_(std::move(hand_on)) {}
  ~ToolSet() override { tools_->Unregister(*this); }

  Status Add(server::Tool tool, std::shared_ptr<const ToolFunction> function);
  void Reply(uint64_t call, run::HostReply reply) { tools_->Reply(*this, call, std::move(reply)); }

  void Push(const nlohmann::ordered_json& message) override;
  bool HasStarted(std::string_view) const override { return true; }

  // Gives a reply of any thread back to the loop, where it calls Reply.
  std::function<void(uint64_t call, run::HostReply reply)> post;

 private:
  const std::shared_ptr<server::SessionTools> tools_;
  const std::function<void(ToolCall)> hand_on_;
  std::vector<server::Tool> list_;
  std::map<std::string, std::shared_ptr<const ToolFunction>, std::less<>> functions_;
};

}  // namespace cella::library
