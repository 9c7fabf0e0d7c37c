#include "http_request.h"

#include <sys/socket.h>

#include <cstdlib>

#include "http/server.h"

namespace cella::http {
namespace {

using async::Task;

constexpr size_t kMostBytes = size_t{64} << 10;  // what a socket takes without a reader

void Require(bool condition) {
  if (!condition) std::abort();
}

// What the layers above rely on.
void CheckPromises(const Request& request) {
  for (std::string_view segment : request.segments()) {
    Require(!segment.empty() && segment != "." && segment != "..");
    Require(segment.find('\0') == segment.npos && segment.find('\\') == segment.npos);
    Require(IsUtf8(segment));
    Require(segment.find('/') == segment.npos || request.segments()[0] == "files");
  }
  Require(!("/" + request.target().Rest(0) + "/").contains("/../"));
  Require(request.is_http_1_0() || request.header("host").has_value());
  Require(!(request.header("content-length") && request.header("transfer-encoding")));
}

class FuzzHandler : public Handler {
 public:
  Task<void> Handle(Exchange& exchange) override {
    const Request& request = exchange.request();
    CheckPromises(request);
    const std::string_view first = request.segments().empty() ? "" : request.segments()[0];
    if (first == "ws") {
      auto socket = co_await exchange.UpgradeToWebSocket({.max_message = 1000});
      while (socket) {
        auto message = co_await (*socket)->Receive();
        if (!message) co_return;
        Require(message->data.size() <= 1000);
        Require(message->kind == WebSocket::Kind::kBinary || IsUtf8(message->data));
      }
    } else if (first == "stream") {
      Status status = co_await exchange.Begin(200, {});
      for (;;) {
        auto piece = co_await exchange.ReadSome();
        if (!status || !piece || piece->empty()) break;
        status = co_await exchange.Write(*piece);
      }
      (void)co_await exchange.End();
    } else if (first != "ignore") {
      auto body = co_await exchange.ReadBody(1000);
      if (!body) co_return;
      Require(body->size() <= 1000);
      (void)co_await exchange.Send(200, {{"X-Path", request.raw_target()}}, *body);
    } else {
      (void)co_await exchange.Send(200, {}, "");
    }
  }
  bool AcceptsEscapedSlash(const Request& request) const override { return request.segments()[0] == "files"; }
};

}  // namespace

void FeedConnection(std::string_view bytes) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0) std::abort();
  UniqueFd ours(fds[0]), client(fds[1]);
  bytes = bytes.substr(0, kMostBytes);
  (void)!send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  (void)shutdown(client.get(), SHUT_WR);

  async::Loop loop;
  FuzzHandler handler;
  auto main = [&]() -> Task<void> {
    // The client reads nothing, so a full socket must be given up soon.
    Server server(loop, handler, {.write_stall = std::chrono::milliseconds(1)});
    server.Serve(std::move(ours));
    co_await server.Join();
  };
  loop.Run(main());
}

}  // namespace cella::http
