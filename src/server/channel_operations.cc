// A WebSocket on a session: the events of all its runs go out, and runs, input, interrupts and cancels come in.
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/names.h"
#include "server/operations.h"
#include "server/run_request.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// A peer that answers no ping for so long is gone.
constexpr auto kPingEvery = 20s;
constexpr uint16_t kNormal = 1000;
constexpr uint16_t kGoingAway = 1001;

class Channel {
 public:
  Channel(Hub& hub, std::shared_ptr<HostedSession> session, http::WebSocket& socket)
      : hub_(hub), session_(std::move(session)), socket_(socket), tasks_(hub.loop) {}

  async::Task<void> Run() {
    const uint64_t listener = session_->Listen([this](const std::shared_ptr<HostedRun>& run) {
      if (!over_) tasks_.Add(Follow(run));
    });
    tasks_.Add(KeepAlive());
    tasks_.Add(WatchSession());
    for (;;) {
      auto message = co_await socket_.Receive();
      if (!message) break;
      auto said = co_await Take(message->data);
      if (!said) break;
    }
    over_ = true;
    session_->Unlisten(listener);
    tasks_.Cancel();
    co_await tasks_.Join();
  }

 private:
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
    auto body = ParseJsonObject(text);
    if (!body) co_return co_await Complain(Json::object(), body.error());
    const std::string type = body->value("type", Json()).is_string() ? (*body)["type"].get<std::string>() : "";
    if (type == "run") co_return co_await StartRun(std::move(*body));
    if (type == "interrupt") {
      session_->engine().Interrupt();
      co_return Status{};
    }
    if (type == "cancel") {
      auto run = body->contains("run") && (*body)["run"].is_string()
                     ? session_->FindRun((*body)["run"].get_ref<const std::string&>())
                     : nullptr;
      if (!run) co_return co_await Complain(*body, NotFound("there is no such run").error());
      (void)session_->Cancel(*run);
      co_return Status{};
    }
    if (type == "input") {
      std::optional<std::string> line;
      if (body->contains("text") && (*body)["text"].is_string()) line = (*body)["text"].get<std::string>();
      auto replied = co_await session_->engine().Reply(std::move(line));
      if (!replied) co_return co_await Complain(*body, ToApiError(replied.error()));
      co_return Status{};
    }
    co_return co_await Complain(*body, Invalid("type: run, input, interrupt or cancel").error());
  }

  async::Task<Status> StartRun(Json body) {
    const Json ref = body.value("ref", Json());
    body.erase("type");
    body.erase("ref");
    auto wish = ReadRunWish(body, hub_.config);
    if (!wish) co_return co_await Complain({{"ref", ref}}, wish.error());
    auto run = co_await session_->Start(std::move(*wish));
    if (!run) co_return co_await Complain({{"ref", ref}}, run.error());
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
      if (async::Clock::now() - socket_.last_heard() > 2 * kPingEvery) {
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
