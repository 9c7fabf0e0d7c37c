#include "http/server.h"

#include <gmock/gmock.h>

#include <boost/asio/post.hpp>

#include "async/deadline.h"
#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Task;
using testing::HasSubstr;

// What the request was, as text.
Task<void> Echo(Exchange& exchange) {
  auto body = co_await exchange.ReadBody(1 << 20);
  if (!body) co_return;
  const Request& request = exchange.request();
  std::string text = fmt::format("{} {}", request.method(), request.target().path());
  for (const QueryParameter& parameter : request.target().parameters()) {
    text += fmt::format(" {}={}", parameter.name, parameter.value);
  }
  text += fmt::format("|{}", *body);
  (void)co_await exchange.Send(200, {{"Content-Type", "text/plain"}}, text);
}

class OnEveryTransport : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Server, OnEveryTransport, testing::Values("", "127.0.0.1:0"));

TEST_P(OnEveryTransport, AnswersSequentialRequests) {
  TestServer server(Echo, {}, GetParam());
  TestClient client(server.address());
  for (int i = 0; i < 3; ++i) {
    client.Say("POST /a/b?x=1&y=%20z HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    TestResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /a/b x=1 y= z|hello");
    EXPECT_EQ(response.header("content-type"), "text/plain");
    EXPECT_EQ(response.header("connection"), "");
    EXPECT_EQ(response.header("date").size(), 29u);
  }
}

TEST_P(OnEveryTransport, AnswersPipelinedRequestsInOrder) {
  TestServer server(Echo, {}, GetParam());
  TestClient client(server.address());
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += fmt::format("POST /{} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{}", i, i % 10);
  client.Say(all);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.ReadResponse().body, fmt::format("POST /{}|{}", i, i % 10));
}

TEST(ServerTest, ReportsThePeerOfAUnixSocket) {
  auto who = [](Exchange& exchange) -> Task<void> {
    const Peer& peer = exchange.peer();
    EXPECT_TRUE(peer.is_unix);
    EXPECT_EQ(peer.uid, getuid());
    EXPECT_EQ(peer.pid, getpid());
    (void)co_await exchange.Send(204, {}, "");
  };
  TestServer server(who);
  EXPECT_EQ(TestClient(server.address()).Get("/").status, 204);
}

TEST(ServerTest, AcceptsARequestByteByByte) {
  TestServer server(Echo);
  TestClient client(server.address());
  for (char c : std::string_view("\r\nPOST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
    client.Say({&c, 1});
  EXPECT_EQ(client.ReadResponse().body, "POST /a|abc");
}

}  // namespace
}  // namespace cella::http
