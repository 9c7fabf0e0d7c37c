// Clients that are slow, silent or too many.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <boost/asio/post.hpp>

#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Clock;
using async::Task;
using testing::HasSubstr;

Task<void> Length(Exchange& exchange) {
  auto body = co_await exchange.ReadBody(1 << 20);
  if (body) (void)co_await exchange.Send(200, {}, std::to_string(body->size()));
}

TEST(SlowClientTest, SlowHeadIsRefusedAtItsTotalTimeLimit) {
  TestServer server(Length, {.header_time = 300ms});
  auto start = Clock::now();
  TestClient client(server.address());
  std::atomic<bool> stop = false;
  std::thread dripper([&] {
    client.Say("GET / HTTP/1.1\r\n");
    // Each byte comes in good time; only all of them together do not.
    while (!stop) {
      client.Say("a");
      std::this_thread::sleep_for(20ms);
    }
  });
  EXPECT_EQ(client.ReadResponse().status, 408);
  EXPECT_GE(Clock::now() - start, 250ms);
  stop = true;
  dripper.join();
}

TEST(SlowClientTest, SilentClientIsClosedWithoutAnAnswer) {
  TestServer server(Length, {.header_time = 100ms});
  TestClient client(server.address());
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST(SlowClientTest, IdleConnectionIsClosedAtItsTimeout) {
  TestServer server(Length, {.idle = 150ms});
  TestClient client(server.address());
  auto start = Clock::now();
  EXPECT_EQ(client.Get("/").status, 200);
  EXPECT_TRUE(client.is_at_end());
  EXPECT_GE(Clock::now() - start, 100ms);
}

TEST(SlowClientTest, EveryRequestRestartsTheIdleTimeout) {
  TestServer server(Length, {.idle = 2s});
  TestClient client(server.address());
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(client.Get("/").status, 200) << i;
    std::this_thread::sleep_for(400ms);
  }
}

TEST(SlowClientTest, StalledBodyIs408) {
  TestServer server(Length, {.body_stall = 100ms});
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(response.header("connection"), "close");
}

TEST(BodyBudgetTest, AllBodiesTogetherAreBounded) {
  TestServer server(Length, {.bodies = 1000});
  TestClient first(server.address()), second(server.address());
  first.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 700\r\n\r\n" + std::string(600, 'x'));
  // Until the first one's bytes have been read, the second still fits.
  const std::string request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n" + std::string(500, 'x');
  const auto limit = Clock::now() + kPatience;
  TestResponse response;
  do {
    TestClient late(server.address());
    late.Say(request);
    response = late.ReadResponse();
  } while (response.status == 200 && Clock::now() < limit);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.header("retry-after"), "1");
  first.Say(std::string(100, 'x'));
  EXPECT_EQ(first.ReadResponse().body, "700");
  // A request that is over gives its room back.
  for (int i = 0; i < 10; ++i) {
    second.Say(request);
    EXPECT_EQ(second.ReadResponse().body, "500");
  }
}

TEST(SlowClientTest, SlowButSteadyBodyIsAccepted) {
  TestServer server(Length, {.body_stall = 2s});
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n");
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(300ms);
    client.Say("x");
  }
  EXPECT_EQ(client.ReadResponse().body, "8");
}

TEST(SlowClientTest, HandlerMayTakeLongerThanClientTimeouts) {
  auto slow = [](Exchange& exchange) -> Task<void> {
    (void)co_await async::SleepUntil(Clock::now() + 1300ms);
    (void)co_await exchange.Send(200, {}, "done");
  };
  TestServer server(slow, {.header_time = 1s, .body_stall = 1s, .write_stall = 1s, .idle = 1s});
  EXPECT_EQ(TestClient(server.address()).Get("/").body, "done");
}

class TooMany : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Connections, TooMany, testing::Values("", "127.0.0.1:0"));

TEST_P(TooMany, Answers503WithRetryAfter) {
  TestServer server(Length, {.connections = 2}, GetParam());
  TestClient first(server.address());
  auto second = std::make_unique<TestClient>(server.address());
  EXPECT_EQ(first.Get("/").status, 200);
  EXPECT_EQ(second->Get("/").status, 200);
  {
    TestClient third(server.address());
    TestResponse response = third.Get("/");
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("retry-after"), "1");
    EXPECT_TRUE(third.is_at_end());
  }
  EXPECT_EQ(first.Get("/").status, 200);
  second.reset();
  while (server.connections() > 1) std::this_thread::yield();
  EXPECT_EQ(TestClient(server.address()).Get("/").status, 200);
}

TEST(RequestLimitTest, LastRequestOfAConnectionGetsConnectionClose) {
  TestServer server(Length, {.requests_per_connection = 2});
  TestClient client(server.address());
  EXPECT_EQ(client.Get("/").header("connection"), "");
  EXPECT_EQ(client.Get("/").header("connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST(AcceptTest, ResumesWhenDescriptorsAreFree) {
  TestServer server(Length);
  TestClient before(server.address());
  EXPECT_EQ(before.Get("/").status, 200);
  UniqueFd socket_for_later(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit old = {}, none = {};
  getrlimit(RLIMIT_NOFILE, &old);
  none = {.rlim_cur = static_cast<rlim_t>(socket_for_later.get()), .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  server.address().path.copy(to.sun_path, sizeof to.sun_path - 1);
  EXPECT_EQ(connect(socket_for_later.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  TestClient waiting(std::move(socket_for_later));
  waiting.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(before.Get("/").status, 200) << "who is connected is served meanwhile";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(waiting.ReadResponse().status, 200);
}

TEST(DrainTest, ClosesIdleConnectionsAtOnceAndBusyOnesAfterTheirAnswer) {
  std::promise<void> started;
  std::atomic<bool> go_on = false;
  auto handler = [&](Exchange& exchange) -> Task<void> {
    if (exchange.request().target().path() == "/busy") {
      started.set_value();
      while (!go_on) (void)co_await async::SleepUntil(Clock::now() + 1ms);
    }
    (void)co_await exchange.Send(200, {}, "answer");
  };
  TestServer server(handler);
  TestClient idle(server.address()), fresh(server.address()), busy(server.address());
  EXPECT_EQ(idle.Get("/").status, 200);
  busy.Say("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
  started.get_future().wait();
  server.BeginStop(kPatience);
  EXPECT_TRUE(idle.is_at_end());
  EXPECT_TRUE(fresh.is_at_end());
  EXPECT_FALSE(server.is_drained());
  go_on = true;
  TestResponse response = busy.ReadResponse();
  EXPECT_EQ(response.body, "answer");
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_TRUE(busy.is_at_end());
  server.Stop(kPatience);
  EXPECT_TRUE(server.is_drained());
}

TEST(DrainTest, ClosesRemainingConnectionsAtTheDeadline) {
  std::promise<void> started;
  bool returned = false;
  auto handler = [&](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Begin(200, {});
    started.set_value();
    (void)co_await async::SleepUntil(Clock::now() + 1h);
    returned = true;
  };
  TestServer server(handler);
  TestClient client(server.address());
  client.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  started.get_future().wait();
  server.Stop(50ms);
  EXPECT_TRUE(server.is_drained());
  EXPECT_TRUE(returned);
  EXPECT_THAT(client.ReadToEnd(), testing::Not(HasSubstr("0\r\n\r\n")));
}

TEST(DrainTest, RemovesTheSocketFile) {
  TestServer server(Length);
  EXPECT_EQ(access(server.address().path.c_str(), F_OK), 0);
  server.Stop(0ms);
  EXPECT_NE(access(server.address().path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace cella::http
