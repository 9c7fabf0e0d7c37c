// Functions of clients that the code of one session calls by name: the namespace `tools` (runners/README.md). A client
// registers its functions over a channel and serves the calls; here are their names, the choice of the channel, and the
// calls that are open. Arguments come from the guest, results from the client. Lives on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "async/blocking_pool.h"
#include "async/event.h"
#include "run/host_calls.h"
#include "server/api_error.h"

namespace cella::server {

struct Tool {
  std::string name, description;
  std::string schema;  // JSON text of its arguments
};

// {"tools": [{"name", "description", "schema"}]}, within bounds.
Answer<std::vector<Tool>> ReadTools(const nlohmann::json& document);

// A channel of a client.
class ToolProvider {
 public:
  virtual ~ToolProvider() = default;
  // Sends a message, without waiting.
  virtual void Push(const nlohmann::ordered_json& message) = 0;
  virtual bool HasStarted(std::string_view run) const = 0;
};

class SessionTools : public run::HostCallHandler {
 public:
  static constexpr const char* kSpace = "tools";

  // `pool` describes the tools: guests ask as often as they like, and the texts are megabytes.
  SessionTools(async::Loop& loop, async::BlockingPool& pool) : loop_(loop), pool_(pool) {}

  // Gives the run that is on.
  void Attach(std::function<std::string()> current_run) { current_run_ = std::move(current_run); }
  // In the place of the provider's earlier ones, which stay where the session would have too many. Unregister it before
  // it ends: its open calls fail then.
  Answer<void> Register(ToolProvider& provider, std::vector<Tool> tools);
  void Unregister(ToolProvider& provider);
  // Does nothing for a call that is not open at this provider.
  void Reply(ToolProvider& provider, uint64_t call, run::HostReply reply);
  bool IsWaitingFor(const ToolProvider& provider) const;

  bool HasOperations() const override { return !All().empty(); }
  async::Task<run::HostReply> Serve(run::HostCall call) override;

 private:
  struct Pending {
    Pending(async::Loop& loop, ToolProvider& at) : provider(&at), answered(loop) {}
    ToolProvider* provider;
    async::Event answered;
    run::HostReply reply;
  };

  // The newest of each name.
  std::map<std::string, const Tool*> All() const;
  ToolProvider* ProviderOf(const std::string& tool) const;
  run::HostReply Absent(std::string_view name) const;

  using Tools = std::shared_ptr<const std::vector<Tool>>;

  async::Loop& loop_;
  async::BlockingPool& pool_;
  std::function<std::string()> current_run_;
  std::vector<std::pair<ToolProvider*, Tools>> registered_;  // the newest last
  std::map<uint64_t, std::shared_ptr<Pending>> pending_;
  uint64_t last_call_ = 0;
};

}  // namespace cella::server
