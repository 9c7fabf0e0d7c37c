// What an open event stream costs.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <boost/asio/post.hpp>
#include <fstream>

#include "http/sse.h"
#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Task;

size_t ResidentBytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

TEST(MemoryTest, ThousandEventStreamsUseLittleMemory) {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  constexpr size_t kStreams = 1000, kMost = 64 << 10;
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit old = files;
  files.rlim_cur = files.rlim_max;
  if (files.rlim_max < 2 * kStreams + 100) GTEST_SKIP() << "RLIMIT_NOFILE is " << files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);

  auto stream = [](Exchange& exchange) -> Task<void> {
    {
      auto body = co_await exchange.ReadBody(1 << 20);
      if (!body) co_return;
    }
    Status begun = co_await exchange.Begin(200, {{"Content-Type", kEventStreamType}});
    if (begun) begun = co_await exchange.Write(kKeepAliveComment);
    if (begun) (void)co_await exchange.Disconnected();
  };
  TestServer server(stream);
  const std::string request =
      "POST /v1/sessions/ses_0123456789/runs HTTP/1.1\r\nHost: localhost\r\nAccept: " + std::string(kEventStreamType) +
      "\r\nAuthorization: Bearer " + std::string(64, 'x') + "\r\nContent-Length: 40000\r\n\r\n" +
      std::string(40000, 'y');
  std::vector<std::unique_ptr<TestClient>> clients;
  size_t before = 0;
  for (size_t i = 0; i < kStreams + 10; ++i) {
    if (i == 10) before = ResidentBytes();  // the first ones pay for what all of them use
    clients.push_back(std::make_unique<TestClient>(server.address()));
    clients.back()->Say(request);
    ASSERT_NE(clients.back()->ReadUntil("keep-alive\n\n\r\n"), "");
  }
  ASSERT_EQ(server.connections(), kStreams + 10);
  const size_t each = (ResidentBytes() - before) / kStreams;
  RecordProperty("bytes_per_stream", static_cast<int>(each));
  EXPECT_LT(each, kMost);
  std::cout << "bytes per open event stream: " << each << "\n";
  clients.clear();
  server.Stop(0ms);
  (void)setrlimit(RLIMIT_NOFILE, &old);
}

}  // namespace
}  // namespace cella::http
