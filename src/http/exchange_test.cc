#include "http/exchange.h"

#include <gmock/gmock.h>
#include <malloc.h>

#include <boost/asio/post.hpp>

#include "async/deadline.h"
#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Clock;
using async::Task;
using testing::HasSubstr;
using testing::Not;

Task<void> Length(Exchange& exchange) {
  auto body = co_await exchange.ReadBody(100);
  if (!body) co_return;
  (void)co_await exchange.Send(200, {}, std::to_string(body->size()));
}

Task<void> Count(Exchange& exchange) {
  uint64_t count = 0;
  for (;;) {
    auto piece = co_await exchange.ReadSome();
    if (!piece) co_return;
    if (piece->empty()) break;
    count += piece->size();
  }
  (void)co_await exchange.Send(200, {}, std::to_string(count));
}

Task<void> ThreeLines(Exchange& exchange) {
  Status status = co_await exchange.Begin(200, {{"Content-Type", "application/x-ndjson"}});
  for (int i = 0; status && i < 3; ++i) status = co_await exchange.Write(fmt::format("line {}\n", i));
  if (status) (void)co_await exchange.End();
}

TEST(BodyTest, JoinsChunks) {
  TestServer server(Length);
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
  client.Say("lo\r\n3\r\nabc\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "8");
  EXPECT_EQ(client.ReadResponse().body, "0");
}

TEST(BodyTest, BodyBeyondTheLimitIs413WithAndWithoutChunks) {
  TestServer server(Length);
  for (const std::string& request :
       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + std::string(101, 'x'),
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n" + std::string(300000, 'x'),
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x')}) {
    TestClient client(server.address());
    client.Say(request);
    TestResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(response.body, HasSubstr("may have 100 bytes"));
    EXPECT_EQ(response.header("connection"), "close");
  }
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'));
  EXPECT_EQ(client.ReadResponse().body, "100");
}

TEST(BodyTest, StreamsLargeUpload) {
  TestServer server(Count);
  TestClient client(server.address());
  client.Say("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n");
  for (int i = 0; i < 50; ++i) client.Say(std::string(1000000, 'x'));
  EXPECT_EQ(client.ReadResponse().body, "50000000");
  client.Say("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100; ++i) client.Say("186a0\r\n").Say(std::string(100000, 'x')).Say("\r\n");
  client.Say("0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "10000000");
}

TEST(BodyTest, SendsContinueWhenTheHandlerReads) {
  TestServer server(Length);
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Say("hello");
  EXPECT_EQ(client.ReadResponse().body, "5");
  EXPECT_EQ(client.Get("/").body, "0");
}

TEST(BodyTest, SendsNoContinueForARefusedRequest) {
  auto refuse = [](Exchange& exchange) -> Task<void> { (void)co_await exchange.SendError(403, "forbidden", "no"); };
  TestServer server(refuse);
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(response.header("connection"), "close");  // nobody knows whether the body comes
}

TEST(BodyTest, SendsNoContinueIfTheBodyHasArrived) {
  TestServer server(Length);
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST(BodyTest, SkipsSmallUnreadBody) {
  auto ignore = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Send(200, {}, exchange.request().target().path());
  };
  TestServer server(ignore);
  TestClient client(server.address());
  client.Say("POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\nGET /inner HTTP/1.1\r\n\r\n1234");
  client.Say("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "/1");
  EXPECT_EQ(client.ReadResponse().body, "/2");
}

TEST(BodyTest, LargeUnreadBodyClosesTheConnectionAfterTheAnswer) {
  auto ignore = [](Exchange& exchange) -> Task<void> { (void)co_await exchange.Send(200, {}, "ok"); };
  TestServer server(ignore, {}, "127.0.0.1:0");
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n").Say(std::string(900000, 'x'));
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.body, "ok") << "a reset must not overtake the answer";
  EXPECT_EQ(response.header("connection"), "close");
}

TEST(AnswerTest, StreamIsChunked) {
  TestServer server(ThreeLines);
  TestClient client(server.address());
  for (int i = 0; i < 2; ++i) {
    TestResponse response = client.Get("/");
    EXPECT_EQ(response.header("transfer-encoding"), "chunked");
    EXPECT_EQ(response.body, "line 0\nline 1\nline 2\n");
  }
}

TEST(AnswerTest, StreamForHttp10EndsWithTheConnection) {
  TestServer server(ThreeLines);
  TestClient client(server.address());
  client.Say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.header("transfer-encoding"), "");
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(response.body, "line 0\nline 1\nline 2\n");
}

TEST(AnswerTest, Http10KeepsAliveOnlyIfRequested) {
  TestServer server(Length);
  TestClient client(server.address());
  client.Say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().header("connection"), "keep-alive");
  client.Say("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().header("connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST(AnswerTest, CloseIsHonoured) {
  TestServer server(Length);
  TestClient client(server.address());
  client.Say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().header("connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST(AnswerTest, HeadHasTheHeadersAndNoBody) {
  auto both = [](Exchange& exchange) -> Task<void> {
    return exchange.request().target().path() == "/stream" ? ThreeLines(exchange) : Length(exchange);
  };
  TestServer server(both);
  TestClient client(server.address());
  client.Say(
      "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReadResponse("HEAD").header("content-length"), "1");
  EXPECT_EQ(client.ReadResponse("HEAD").header("transfer-encoding"), "chunked");
  EXPECT_EQ(client.ReadResponse().body, "0");
}

TEST(AnswerTest, NoContentHasNoLength) {
  auto none = [](Exchange& exchange) -> Task<void> { (void)co_await exchange.Send(204, {}, "ignored"); };
  TestServer server(none);
  TestClient client(server.address());
  for (int i = 0; i < 2; ++i) {
    TestResponse response = client.Get("/");
    EXPECT_EQ(response.status, 204);
    EXPECT_EQ(response.header("content-length"), "");
  }
}

TEST(AnswerTest, EnforcesAnnouncedLength) {
  auto download = [](Exchange& exchange) -> Task<void> {
    Status status = co_await exchange.Begin(200, {{"Content-Length", "6"}});
    if (status) status = co_await exchange.Write("abc");
    if (status && exchange.request().target().path() == "/long") status = co_await exchange.Write("defg");
    if (status && exchange.request().target().path() == "/right") status = co_await exchange.Write("def");
    if (status) (void)co_await exchange.End();
  };
  TestServer server(download);
  TestResponse right = TestClient(server.address()).Get("/right");
  EXPECT_EQ(right.header("content-length"), "6");
  EXPECT_EQ(right.header("transfer-encoding"), "");
  EXPECT_EQ(right.body, "abcdef");
  EXPECT_EQ(TestClient(server.address()).Get("/long").body, "abc");
  EXPECT_EQ(TestClient(server.address()).Get("/short").body, "abc");
}

TEST(AnswerTest, MissingAnswerIs500) {
  auto forgets = [](Exchange& exchange) -> Task<void> {
    if (exchange.request().target().path() == "/throw") throw std::runtime_error("secret");
    co_return;
  };
  TestServer server(forgets);
  TestClient client(server.address());
  EXPECT_EQ(client.Get("/").status, 500);
  TestResponse response = client.Get("/throw");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, Not(HasSubstr("secret")));
}

TEST(AnswerTest, RejectsSecondAnswer) {
  auto twice = [](Exchange& exchange) -> Task<void> {
    EXPECT_FALSE(exchange.is_answered());
    EXPECT_TRUE(co_await exchange.Send(200, {}, "1"));
    EXPECT_TRUE(exchange.is_answered());
    EXPECT_FALSE(co_await exchange.Send(200, {}, "2"));
    EXPECT_FALSE(co_await exchange.Begin(200, {}));
    EXPECT_FALSE(co_await exchange.Write("3"));
    EXPECT_FALSE(co_await exchange.End());
  };
  TestServer server(twice);
  TestClient client(server.address());
  EXPECT_EQ(client.Get("/").body, "1");
  EXPECT_EQ(client.Get("/").body, "1");
}

class BrokenStream : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Answer, BrokenStream, testing::Values("/return", "/throw", "/abort"));

TEST_P(BrokenStream, HasNoCleanEnd) {
  auto breaks = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Begin(200, {});
    (void)co_await exchange.Write("half");
    if (exchange.request().target().path() == "/throw") throw std::runtime_error("x");
    if (exchange.request().target().path() == "/abort") exchange.Abort();
  };
  for (const char* address : {"", "127.0.0.1:0"}) {
    TestServer server(breaks, {}, address);
    TestClient client(server.address());
    client.Say(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", GetParam()));
    EXPECT_THAT(client.ReadToEnd(), Not(HasSubstr("0\r\n\r\n")));
    if (!server.address().is_unix()) EXPECT_TRUE(client.was_reset());
  }
}

TEST(DisconnectTest, HandlerIsNotifiedOfDisconnect) {
  for (const char* address : {"", "127.0.0.1:0"}) {
    std::promise<void> started;
    std::promise<bool> left;
    auto waits = [&](Exchange& exchange) -> Task<void> {
      EXPECT_TRUE(exchange.is_connected());
      started.set_value();
      auto ended = co_await async::FirstOf(async::SleepUntil(Clock::now() + kPatience), exchange.Disconnected());
      left.set_value(ended.index() == 1 && !exchange.is_connected());
    };
    TestServer server(waits, {}, address);
    {
      TestClient client(server.address());
      client.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      started.get_future().wait();
    }
    EXPECT_TRUE(left.get_future().get());
  }
}

TEST(DisconnectTest, WatchingKeepsPipelinedRequests) {
  auto watches = [](Exchange& exchange) -> Task<void> {
    if (exchange.request().target().path() == "/slow") {
      (void)co_await async::FirstOf(async::SleepUntil(Clock::now() + 50ms), exchange.Disconnected());
    }
    auto body = co_await exchange.ReadBody(1 << 20);
    if (body)
      (void)co_await exchange.Send(200, {}, fmt::format("{} {}", exchange.request().target().path(), body->size()));
  };
  TestServer server(watches);
  TestClient client(server.address());
  // More than is kept ahead, so that the watch has to stop reading.
  std::string all = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 1000; ++i)
    all += fmt::format("POST /{} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789", i);
  std::thread sender([&] { client.Say(all); });
  EXPECT_EQ(client.ReadResponse().body, "/slow 0");
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.ReadResponse().body, fmt::format("/{} 10", i));
  sender.join();
}

TEST(DisconnectTest, HalfClosedClientIsAnswered) {
  auto waits = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Disconnected();
    (void)co_await exchange.Send(200, {}, "late");
  };
  TestServer server(waits);
  TestClient client(server.address());
  client.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n").EndWriting();
  EXPECT_EQ(client.ReadResponse().body, "late");
}

TEST(BackPressureTest, StoppedReaderBlocksTheWriterUntilTheTimeout) {
  std::atomic<size_t> written = 0;
  std::promise<Status> ended;
  auto floods = [&](Exchange& exchange) -> Task<void> {
    const std::string block(64 << 10, 'x');
    Status status = co_await exchange.Begin(200, {});
    while (status) {
      status = co_await exchange.Write(block);
      if (status) written += block.size();
    }
    ended.set_value(status);
  };
  TestServer server(floods, {.write_stall = 200ms});
  TestClient client(server.address());
  size_t heap_before = mallinfo2().uordblks;
  client.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  Status status = ended.get_future().get();
  EXPECT_EQ(status.error().code, ErrorCode::kClosed);
  // What the kernel's socket buffers take, and nothing of our own on top.
  EXPECT_LT(written, 4u << 20);
  EXPECT_LT(mallinfo2().uordblks, heap_before + (1u << 20));
}

TEST(BackPressureTest, SlowReaderReceivesEverything) {
  auto floods = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Send(200, {}, std::string(8 << 20, 'x'));
  };
  TestServer server(floods, {.write_stall = 2s});
  TestClient client(server.address());
  client.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body.size(), 8u << 20);
}

TEST(FairnessTest, WriterWithFastReaderYieldsToOthers) {
  std::atomic<bool> stop = false;
  auto handler = [&](Exchange& exchange) -> Task<void> {
    if (exchange.request().target().path() == "/") {
      (void)co_await exchange.Send(200, {}, "ok");
      co_return;
    }
    Status status = co_await exchange.Begin(200, {});
    while (status && !stop) status = co_await exchange.Write("x");
    if (status) (void)co_await exchange.End();
  };
  TestServer server(handler);
  TestClient busy(server.address());
  busy.Say("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
  std::thread reader([&] { (void)busy.ReadUntil("0\r\n\r\n"); });
  TestClient other(server.address());
  EXPECT_EQ(other.Get("/").body, "ok");
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace cella::http
