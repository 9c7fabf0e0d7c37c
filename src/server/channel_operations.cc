// A WebSocket on a session: the events of all its runs go out, and runs, input, interrupts and cancels come in.
#include <map>
#include <nlohmann/json.hpp>

#include "async/caught.h"
#include "async/deadline.h"
#include "policy/names.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "server/run_request.h"
#include "server/run_service.h"
#include "server/session_tools.h"
#include "server/values.h"
#include "session/variables.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// A peer that answers no ping for so long is gone.
constexpr auto kPingEvery = 20s;
constexpr uint16_t kNormal = 1000;
constexpr uint16_t kGoingAway = 1001;

class Channel : public ToolProvider {
 public:
  Channel(Hub& hub, std::shared_ptr<HostedSession> session, http::WebSocket& socket)
      : hub_(hub), session_(std::move(session)), socket_(socket), tasks_(hub.loop) {}

  async::Task<void> Run() {
    const uint64_t listener = session_->Listen([this](const std::shared_ptr<HostedRun>& run) {
      if (!over_) tasks_.Add(Follow(run));
    });
    tasks_.Add(KeepAlive());
    tasks_.Add(WatchSession());
    (void)co_await async::Caught(Serve());
    over_ = true;
    session_->Unlisten(listener);
    if (SessionTools* tools = session_->tools()) tools->Unregister(*this);
    for (const auto& [id, started] : started_) {
      auto run = started.run.lock();
      if (run && started.ends_with_channel) (void)run->Stop(StopReason::kClientGone);
    }
    tasks_.Cancel();
    (void)co_await async::Caught(tasks_.Join());
  }

 private:
  async::Task<void> Serve() {
    for (;;) {
      auto message = co_await socket_.Receive();
      if (!message) co_return;
      auto said = co_await Take(message->data);
      if (!said) co_return;
    }
  }

  async::Task<Status> Say(const nlohmann::ordered_json& json) {
    const std::string text = ToText(json);
    auto sent = co_await socket_.Send(text);
    co_return sent;
  }

  async::Task<Status> Complain(const Json& request, const ApiError& error) {
    nlohmann::ordered_json answer = {{"type", "refused"},
                                     {"error", {{"code", error.code}, {"message", error.message}}}};
    if (request.contains("ref")) answer["ref"] = request["ref"];
    auto said = co_await Say(answer);
    co_return said;
  }

  async::Task<Status> Take(std::string_view text) {
    auto body = co_await ParseJsonObject(hub_.work, text);
    if (!body) co_return co_await Complain(Json::object(), body.error());
    const std::string type = body->value("type", Json()).is_string() ? (*body)["type"].get<std::string>() : "";
    if (type == "run") co_return co_await Start(std::move(*body));
    if (type == "interrupt" || type == "cancel") co_return co_await Stop(*body, type == "cancel");
    if (type == "input") {
      std::optional<std::string> line;
      if (body->contains("text") && (*body)["text"].is_string()) line = (*body)["text"].get<std::string>();
      const auto run = FindRun(*body);
      const Status replied =
          run ? run->Reply(std::move(line)) : Status(Err(ErrorCode::kInvalid, "nothing waits for input"));
      if (!replied) co_return co_await Complain(*body, ToApiError(replied.error()));
      co_return Status{};
    }
    if (type == "tools") co_return co_await TakeTools(*body);
    if (type == "reply") {
      if (session_->tools() != nullptr) TakeReply(*body);
      co_return Status{};
    }
    if (type == "put") {
      // Like a run it takes its time, and other messages are taken meanwhile.
      tasks_.Add(Put(std::move(*body)));
      co_return Status{};
    }
    co_return co_await Complain(*body, Invalid("type: run, input, interrupt, cancel, put, tools or reply").error());
  }

  // The run that a message names, else the one that is on; null: there is none.
  std::shared_ptr<HostedRun> FindRun(const Json& body) const {
    if (!NamesRun(body)) return session_->current();
    return body["run"].is_string() ? session_->FindRun(body["run"].get_ref<const std::string&>()) : nullptr;
  }
  static bool NamesRun(const Json& body) { return body.contains("run") && !body["run"].is_null(); }

  async::Task<Status> Stop(const Json& body, bool cancels) {
    const auto run = FindRun(body);
    if (!run && (cancels || NamesRun(body))) {
      co_return co_await Complain(body, NotFound("there is no such run").error());
    }
    const bool stopped = run && run->Stop(cancels ? StopReason::kCancel : StopReason::kInterrupt);
    nlohmann::ordered_json answer = {{"type", "answer"}};
    if (body.contains("ref")) answer["ref"] = body["ref"];
    answer["run"] = run ? Json(run->id()) : Json();
    answer[cancels ? "cancelled" : "interrupted"] = stopped;
    co_return co_await Say(answer);
  }

  // {"variables": {"name": VALUE}}, as a run has them.
  async::Task<void> Put(Json body) {
    auto variables = session::ReadVariables(body.value("variables", Json()));
    if (!variables) {
      (void)co_await Complain(body, ToApiError(variables.error()));
      co_return;
    }
    const std::string language = body.value("language", Json()).is_string() ? body["language"].get<std::string>() : "";
    for (Variable& variable : *variables) {
      auto put = co_await PutValue(hub_, *session_, std::move(variable), language);
      if (put) continue;
      (void)co_await Complain(body, put.error());
      co_return;
    }
    (void)co_await Say({{"type", "stored"}, {"ref", body.value("ref", Json())}, {"variables", variables->size()}});
  }

  async::Task<Status> TakeTools(const Json& body) {
    if (session_->tools() == nullptr) {
      co_return co_await Complain(body, ApiError{409,
                                                 "unsupported",
                                                 "code of this session cannot call tools",
                                                 "open a session that has the capability calls",
                                                 {}});
    }
    auto tools = ReadTools(body);
    if (!tools) co_return co_await Complain(body, tools.error());
    const size_t count = tools->size();
    auto taken = session_->tools()->Register(*this, std::move(*tools));
    if (!taken) co_return co_await Complain(body, taken.error());
    co_return co_await Say({{"type", "registered"}, {"ref", body.value("ref", Json())}, {"tools", count}});
  }

  // {"call": 1, "value": "JSON text"}, or {"call": 1, "error": {"type": "...", "message": "..."}}
  void TakeReply(const Json& body) {
    run::HostReply reply;
    auto text = [](const Json& from, const char* key) {
      return from.contains(key) && from[key].is_string() ? from[key].get<std::string>() : std::string();
    };
    if (body.contains("error") && body["error"].is_object()) {
      std::string type = text(body["error"], "type");
      if (type != "ToolTimeoutError") type = "ToolError";
      reply.error = run::HostError{std::move(type), text(body["error"], "message")};
    } else {
      reply.value = text(body, "value");
    }
    if (body.contains("call") && body["call"].is_number_unsigned()) {
      session_->tools()->Reply(*this, body["call"].get<uint64_t>(), std::move(reply));
    }
  }

  void Push(const nlohmann::ordered_json& message) override {
    auto say = [](Channel& self, nlohmann::ordered_json json) -> async::Task<void> { (void)co_await self.Say(json); };
    if (!over_) tasks_.Add(say(*this, message));
  }

  bool HasStarted(std::string_view run) const override { return started_.contains(run); }

  async::Task<Status> Start(Json body) {
    const Json ref = body.value("ref", Json());
    body.erase("type");
    body.erase("ref");
    auto request = ReadRunRequest(body, hub_.config);
    if (!request) co_return co_await Complain({{"ref", ref}}, request.error());
    const bool cancels = request->delivery.cancel_on_disconnect;
    auto run = co_await StartRun(hub_, *session_, std::move(request->run), std::move(request->delivery));
    if (!run) co_return co_await Complain({{"ref", ref}}, run.error());
    std::erase_if(started_, [](const auto& each) { return each.second.run.expired(); });
    started_[(*run)->id()] = {*run, cancels};
    co_return co_await Say({{"type", "accepted"}, {"ref", ref}, {"run", (*run)->id()}});
  }

  async::Task<void> Follow(std::shared_ptr<HostedRun> run) {
    auto reader = run->events()->ReadAfter(std::nullopt);
    for (;;) {
      auto lines = reader.Read();
      if (!lines) co_return;
      std::string_view rest = *lines;
      while (!rest.empty()) {
        const size_t end = rest.find('\n');
        std::string message = R"({"run":")" + run->id() + R"(","event":)";
        message += rest.substr(0, end);
        message += "}";
        rest.remove_prefix(end + 1);
        auto sent = co_await socket_.Send(message);
        if (!sent) co_return;
      }
      if (!lines->empty()) continue;
      if (reader.at_end()) co_return;
      bool more = co_await reader.Wait();
      if (!more && !reader.at_end()) co_return;
    }
  }

  async::Task<void> KeepAlive() {
    for (;;) {
      bool slept = co_await async::SleepUntil(async::Clock::now() + kPingEvery);
      if (!slept) co_return;
      // A client may be busy with a call, and read nothing meanwhile.
      const bool works = session_->tools() != nullptr && session_->tools()->IsWaitingFor(*this);
      if (!works && async::Clock::now() - socket_.last_heard() > 2 * kPingEvery) {
        co_return co_await socket_.Close(kGoingAway, "no answer");
      }
      auto sent = co_await socket_.Ping();
      if (!sent) co_return;
    }
  }

  async::Task<void> WatchSession() {
    bool gone = co_await session_->Gone();
    if (gone) co_await socket_.Close(kNormal, "the session has ended");
  }

  Hub& hub_;
  std::shared_ptr<HostedSession> session_;
  http::WebSocket& socket_;
  async::TaskGroup tasks_;
  struct Started {
    std::weak_ptr<HostedRun> run;
    bool ends_with_channel = false;
  };
  std::map<std::string, Started, std::less<>> started_;
  bool over_ = false;
};

async::Task<void> Open(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  http::WebSocketOptions options;
  options.max_message = hub.config.server.max_body;
  auto socket = co_await call.exchange.UpgradeToWebSocket(options);
  if (!socket) co_return;
  Channel channel(hub, std::move(*session), **socket);
  co_await channel.Run();
}

}  // namespace

void AddChannelOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/v1/sessions/{id}/channel", "WebSocket: events out; runs, input, interrupt, cancel in", Open);
}

}  // namespace cella::server
