#include "http/client.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>

#include "http/test_client.h"
#include "http/websocket.h"

namespace cella::http {
namespace {

using async::Task;
using testing::HasSubstr;

Task<void> Serve(Exchange& exchange) {
  const Request& request = exchange.request();
  const auto path = request.target().path();
  if (path == "/lines" || path == "/broken") {
    Status status = co_await exchange.Begin(200, {{"Content-Type", "application/x-ndjson"}});
    for (const char* part : {"{\"a\":", "1}\n{}\n", "{\"last\":1}"}) {
      if (status) status = co_await exchange.Write(part);
    }
    if (path == "/broken") co_return;
    (void)co_await exchange.End();
  } else if (path == "/silent") {
    (void)co_await exchange.Disconnected();
  } else if (path == "/early") {
    (void)co_await exchange.SendError(413, "too_large", "no");
  } else {
    auto body = co_await exchange.ReadBody(1 << 20);
    if (!body) co_return;
    const std::string answer =
        fmt::format("{} {} {} {}", request.method(), path, request.header("x-a").value_or("-"), body->size());
    (void)co_await exchange.Send(200, {{"X-B", "c"}}, answer);
  }
}

Client MakeClient(async::Loop& loop, const Address& address, ClientOptions options = {}) {
  std::string text = address.is_unix() ? address.ToString() : "http://" + address.ToString();
  return Client(loop, ParseUrl(text).value(), std::move(options));
}

TEST(UrlTest, RoundTrips) {
  for (const char* text : {"unix:/run/cella.sock", "http://127.0.0.1:8080", "https://[::1]:8443/prefix"}) {
    EXPECT_EQ(ParseUrl(text)->ToString(), text);
  }
  EXPECT_EQ(ParseUrl("http://host/")->ToString(), "http://host:80");
  EXPECT_EQ(ParseUrl("https://[::1]")->address.port, 443);
  for (const char* text :
       {"", "host:80", "http://", "http://:80", "ftp://host", "http://a b", "http://u@host", "http://h?q"}) {
    EXPECT_FALSE(ParseUrl(text)) << text;
  }
}

class ClientTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, ClientTest, testing::Values("", "127.0.0.1:0"));

TEST_P(ClientTest, ReusesOneConnection) {
  TestServer server(Serve, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    for (int i = 0; i < 3; ++i) {
      ClientRequest request{.method = "POST", .target = "/a?b=c", .headers = {{"X-A", "a"}}, .body = "hello"};
      auto response = co_await client.Fetch(request);
      EXPECT_TRUE(response) << response.error().message;
      if (!response) co_return;
      EXPECT_EQ(response->status, 200);
      EXPECT_EQ(response->body, "POST /a a 5");
      EXPECT_EQ(response->header("x-b"), "c");
      EXPECT_EQ(server.connections(), 1u);
    }
    auto head = co_await client.Fetch({.method = "HEAD", .target = "/"});
    EXPECT_TRUE(head && head->body.empty());
  };
  loop.Run(main());
}

TEST_P(ClientTest, ReadsAStreamLineByLine) {
  TestServer server(Serve, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      auto response = co_await client.Start({.target = "/lines"});
      EXPECT_TRUE(response && response->status == 200);
      for (const char* expected : {"{\"a\":1}", "{}", "{\"last\":1}"}) {
        auto line = co_await client.NextLine();
        EXPECT_TRUE(line && *line == expected) << expected;
      }
      auto end = co_await client.NextLine();
      EXPECT_TRUE(end && !*end);
    }
  };
  loop.Run(main());
}

TEST_P(ClientTest, DistinguishesBrokenStreamFromEnd) {
  TestServer server(Serve, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    auto response = co_await client.Start({.target = "/broken"});
    for (;;) {
      auto line = co_await client.NextLine();
      if (line) {
        EXPECT_TRUE(line->has_value());
        if (!line->has_value()) break;
        continue;
      }
      EXPECT_EQ(line.error().code, ErrorCode::kClosed);
      EXPECT_THAT(line.error().message, HasSubstr("ended before the answer was complete"));
      break;
    }
    auto again = co_await client.Fetch({.target = "/x"});
    EXPECT_TRUE(again && again->status == 200) << "a new connection is made";
  };
  loop.Run(main());
}

TEST_P(ClientTest, ReturnsRefusalSentDuringTheUpload) {
  TestServer server(Serve, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    ClientRequest request{.method = "PUT", .target = "/early", .body = std::string(900000, 'x')};
    auto response = co_await client.Fetch(request);
    EXPECT_TRUE(response) << response.error().message;
    EXPECT_TRUE(response && response->status == 413);
  };
  loop.Run(main());
}

TEST_P(ClientTest, TimesOutOnASilentServer) {
  TestServer server(Serve, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address(), {.silence = 50ms});
  auto main = [&]() -> Task<void> {
    auto response = co_await client.Fetch({.target = "/silent"});
    EXPECT_FALSE(response);
    EXPECT_THAT(response.error().message, HasSubstr("said nothing for 50ms"));
  };
  loop.Run(main());
}

TEST_P(ClientTest, ReconnectsAfterTheServerClosedAnIdleConnection) {
  TestServer server(Serve, {.requests_per_connection = 1}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    for (int i = 0; i < 3; ++i) {
      auto response = co_await client.Fetch({.target = "/x"});
      EXPECT_TRUE(response && response->status == 200);
    }
  };
  loop.Run(main());
}

TEST(ClientErrorTest, NamesTheRemedyIfNoServerListens) {
  TemporaryDirectory directory;
  async::Loop loop;
  auto closed = Listener::Open(*ParseAddress("127.0.0.1:0"), {}).value().address();
  for (std::string url : {"unix:" + (directory / "none"), "http://" + closed.ToString()}) {
    Client client(loop, ParseUrl(url).value(), {});
    auto main = [&]() -> Task<void> {
      auto response = co_await client.Fetch({});
      EXPECT_FALSE(response);
      EXPECT_EQ(response.error().message, "no server answers on " + url + ": start one with 'cella serve'");
    };
    loop.Run(main());
  }
}

TEST(ClientErrorTest, RejectsHeadersWithLineBreaks) {
  TestServer server(Serve);
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto main = [&]() -> Task<void> {
    auto header = co_await client.Fetch({.headers = {{"A", "b\r\nC: d"}}});
    EXPECT_FALSE(header);
    auto target = co_await client.Fetch({.target = "/a HTTP/1.1\r\nX: y"});
    EXPECT_FALSE(target);
  };
  loop.Run(main());
}

TEST(ClientErrorTest, BoundsTheResponse) {
  TestServer server(Serve);
  async::Loop loop;
  Client client = MakeClient(loop, server.address(), {.max_body = 4});
  auto main = [&]() -> Task<void> {
    auto response = co_await client.Fetch({.target = "/x"});
    EXPECT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::kExhausted);
  };
  loop.Run(main());
}

Task<void> GreetAndEcho(Exchange& exchange) {
  if (exchange.request().target().path() != "/ws") {
    (void)co_await exchange.SendError(404, "not_found", "nothing here");
    co_return;
  }
  auto socket = co_await exchange.UpgradeToWebSocket({});
  if (!socket) co_return;
  (void)co_await (*socket)->Send("hi");
  (void)co_await (*socket)->Receive();
}

TEST_P(ClientTest, UpgradeHandsOverTheConnection) {
  TestServer server(GreetAndEcho, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  ClientRequest request{.target = "/ws"};
  request.headers = {{"Connection", "Upgrade"},
                     {"Upgrade", "websocket"},
                     {"Sec-WebSocket-Version", "13"},
                     {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  auto scenario = [&]() -> Task<Result<std::string>> {
    auto upgraded = co_await client.Upgrade(request);
    CO_TRY(Client::Upgraded result, std::move(upgraded));
    if (!result.stream) co_return Err(ErrorCode::kInternal, "status {}", result.response.status);
    std::string all;
    while (all.size() < 4) {
      std::array<char, 16> buffer;
      auto read = co_await result.stream->Read(buffer);
      CO_TRY(size_t size, std::move(read));
      if (size == 0) break;
      all.append(buffer.data(), size);
    }
    // An empty close frame, masked as a client's must be.
    auto written = co_await result.stream->Write(std::string("\x88\x80\x01\x02\x03\x04"), kPatience);
    CO_TRY_VOID(written);
    co_return all;
  };
  auto text = loop.Run(scenario());
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "\x81\x02hi");
}

TEST_P(ClientTest, UpgradeReturnsTheAnswerOfAServerThatDoesNotSwitch) {
  TestServer server(GreetAndEcho, {}, GetParam());
  async::Loop loop;
  Client client = MakeClient(loop, server.address());
  auto upgraded = loop.Run(client.Upgrade({.target = "/other", .headers = {{"Connection", "Upgrade"}}}));
  ASSERT_TRUE(upgraded) << upgraded.error().message;
  EXPECT_EQ(upgraded->response.status, 404);
  EXPECT_THAT(upgraded->response.body, HasSubstr("nothing here"));
  EXPECT_EQ(upgraded->stream, nullptr);
}

}  // namespace
}  // namespace cella::http
