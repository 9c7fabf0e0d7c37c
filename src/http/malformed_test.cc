// What must never reach a handler, over real connections.
#include <gmock/gmock.h>

#include <boost/asio/post.hpp>

#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Task;
using testing::HasSubstr;
using testing::StartsWith;

struct Case {
  const char* name;
  std::string bytes;
  int status;
};

class Malformed : public testing::TestWithParam<Case> {};

std::string WithHeaders(std::string_view headers) {
  return fmt::format("POST / HTTP/1.1\r\nHost: x\r\n{}\r\n\r\nhello", headers);
}

const Case kCases[] = {
    {"NotHttp", "hello\r\n\r\n", 400},
    {"TlsHello", std::string("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 11), 400},
    {"BareLineFeeds", "GET / HTTP/1.1\nHost: x\n\n", 400},
    {"BareLineFeedInAHeader", "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400},
    {"BareCarriageReturn", "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400},
    {"FoldedHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400},
    {"SpaceBeforeColon", WithHeaders("Content-Length : 5"), 400},
    {"NoColon", WithHeaders("abc"), 400},
    {"EmptyName", WithHeaders(": a"), 400},
    {"ZeroByteInAHeader", "GET / HTTP/1.1\r\nHost: x\r\nA: b" + std::string(1, '\0') + "\r\n\r\n", 400},
    {"NoVersion", "GET /\r\n\r\n", 400},
    {"Version09", "GET / HTTP/0.9\r\n\r\n", 400},
    {"Version2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    {"TwoSpaces", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
    {"TwoHosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
    {"Traversal", "GET /a/../b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"EscapedTraversal", "GET /%2e%2e/b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"EscapedSlash", "GET /a%2fb HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"EscapedZero", "GET /a%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"Asterisk", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"Connect", "CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    {"LengthAndEncoding", WithHeaders("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400},
    {"EncodingAndLength", WithHeaders("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400},
    {"TwoLengths", WithHeaders("Content-Length: 5\r\nContent-Length: 6"), 400},
    {"TwoEqualLengths", WithHeaders("Content-Length: 5\r\nContent-Length: 5"), 400},
    {"ListOfLengths", WithHeaders("Content-Length: 5, 5"), 400},
    {"SignedLength", WithHeaders("Content-Length: +5"), 400},
    {"NegativeLength", WithHeaders("Content-Length: -1"), 400},
    {"HexLength", WithHeaders("Content-Length: 0x5"), 400},
    {"EmptyLength", WithHeaders("Content-Length: "), 400},
    {"HugeLength", WithHeaders("Content-Length: 99999999999999999999"), 400},
    {"UnknownEncoding", WithHeaders("Transfer-Encoding: gzip"), 501},
    {"EncodingBeforeChunked", WithHeaders("Transfer-Encoding: gzip, chunked"), 501},
    {"ChunkedTwice", WithHeaders("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400},
    {"ChunkedTwiceInAList", WithHeaders("Transfer-Encoding: chunked, chunked"), 501},
    {"NearlyChunked", WithHeaders("Transfer-Encoding: xchunked"), 501},
    {"ChunkedIn10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"UnknownExpect", WithHeaders("Expect: 200-ok"), 417},
    {"LongHead", "GET /" + std::string(20000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
    {"ManyHeaders", WithHeaders(std::string(20000, 'a') + ": b"), 431},
};
INSTANTIATE_TEST_SUITE_P(Request, Malformed, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Malformed, IsRejectedBeforeTheHandlerAndClosesTheConnection) {
  bool handled = false;
  auto handler = [&](Exchange& exchange) -> Task<void> {
    handled = true;
    (void)co_await exchange.Send(200, {}, "");
  };
  TestServer server(handler);
  TestClient client(server.address());
  client.Say(GetParam().bytes);
  client.Say("GET /second HTTP/1.1\r\nHost: x\r\n\r\n");  // smuggled or not, it must not be answered
  client.EndWriting();
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, GetParam().status) << response.head << response.body;
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(response.header("content-type"), "application/json");
  EXPECT_THAT(response.body, StartsWith("{\"error\":{\"code\":\""));
  EXPECT_TRUE(client.is_at_end());
  server.Stop(0ms);
  EXPECT_FALSE(handled);
}

TEST(MalformedBodyTest, IsAnsweredWith400) {
  auto handler = [](Exchange& exchange) -> Task<void> {
    auto body = co_await exchange.ReadBody(100);
    EXPECT_FALSE(body);
  };
  TestServer server(handler);
  for (const char* chunks : {"x\r\n\r\n", "5\r\nhelloworld\r\n", "ffffffffffffffffff\r\n\r\n"}) {
    TestClient client(server.address());
    client.Say(std::string("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks);
    TestResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 400) << chunks;
    EXPECT_THAT(response.body, HasSubstr("bad_request"));
    EXPECT_TRUE(client.is_at_end());
  }
}

TEST(MalformedBodyTest, BoundsChunkLines) {
  auto handler = [](Exchange& exchange) -> Task<void> { (void)co_await exchange.ReadBody(100); };
  TestServer server(handler);
  TestClient client(server.address());
  client.Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + std::string(100000, 'x'));
  EXPECT_EQ(client.ReadResponse().status, 400);
}

TEST(EscapedSlashTest, ReachesAHandlerThatAllowsIt) {
  auto handler = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Send(200, {}, exchange.request().target().Rest(1));
  };
  TestServer server(handler);
  EXPECT_EQ(TestClient(server.address()).Get("/files/a%2Fb/c").body, "a/b/c");
  EXPECT_EQ(TestClient(server.address()).Get("/other/a%2Fb").status, 400);
  EXPECT_EQ(TestClient(server.address()).Get("/files/a%2F..%2F..%2Fb").status, 400);
}

TEST(ResponseHeaderTest, RejectsLineBreaksInValues) {
  auto handler = [](Exchange& exchange) -> Task<void> {
    (void)co_await exchange.Send(200, {{"X-Name", "a\r\nSet-Cookie: b"}, {"Content-Length", "7"}}, "ok");
  };
  TestServer server(handler);
  TestResponse response = TestClient(server.address()).Get("/");
  EXPECT_EQ(response.header("x-name"), "a  Set-Cookie: b");
  EXPECT_EQ(response.header("set-cookie"), "");
  EXPECT_EQ(response.header("content-length"), "2");
}

}  // namespace
}  // namespace cella::http
