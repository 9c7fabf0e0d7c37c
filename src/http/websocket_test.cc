#include "http/websocket.h"

#include <gmock/gmock.h>

#include <boost/asio/post.hpp>

#include "async/deadline.h"
#include "http/test_client.h"
#include "http/websocket_frame.h"

namespace cella::http {
namespace {

using async::Task;
using namespace std::string_literals;
using testing::HasSubstr;

constexpr unsigned kFinal = 0x80;

// A client's frame.
std::string Frame(unsigned first, std::string payload) {
  const std::array<char, 4> mask = {0x12, 0x34, 0x56, 0x78};
  std::string frame = {static_cast<char>(first)};
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else if (payload.size() < 65536) {
    frame += {static_cast<char>(0xfe), static_cast<char>(payload.size() >> 8), static_cast<char>(payload.size())};
  } else {
    frame += static_cast<char>(0xff);
    for (int shift = 56; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift);
  }
  frame.append(mask.data(), mask.size());
  Unmask(payload, mask, 0);
  return frame + payload;
}

struct Received {
  unsigned opcode = 0;
  std::string payload;
};

Received ReadFrame(TestClient& client) {
  std::string start = client.ReadBytes(2);
  if (start.size() < 2) return {};
  EXPECT_EQ(start[0] & 0xf0, 0x80) << "whole, and no reserved bits";
  uint64_t length = static_cast<unsigned char>(start[1]);
  EXPECT_LT(length, 128u) << "a server does not mask";
  const size_t extra = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (extra > 0) {
    length = 0;
    for (char c : client.ReadBytes(extra)) length = length << 8 | static_cast<unsigned char>(c);
  }
  return {static_cast<unsigned>(start[0] & 0x0f), client.ReadBytes(length)};
}

unsigned CloseCode(const Received& frame) {
  if (frame.opcode != 8 || frame.payload.size() < 2) return 0;
  return static_cast<unsigned char>(frame.payload[0]) << 8 | static_cast<unsigned char>(frame.payload[1]);
}

constexpr std::string_view kHandshake =
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: other, cella\r\n\r\n";

void Shake(TestClient& client) {
  client.Say(kHandshake);
  TestResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 101);
  EXPECT_EQ(response.header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(response.header("sec-websocket-protocol"), "cella");
  EXPECT_EQ(response.header("connection"), "Upgrade");
}

Task<void> EchoMessages(Exchange& exchange) {
  auto socket = co_await exchange.UpgradeToWebSocket({.max_message = 200000, .protocol = "cella"});
  if (!socket) co_return;
  for (;;) {
    auto message = co_await (*socket)->Receive();
    if (!message) co_return;
    Status sent;
    if (message->kind == WebSocket::Kind::kText) {
      sent = co_await (*socket)->Send(message->data);
    } else {
      sent = co_await (*socket)->SendBinary(message->data);
    }
    if (!sent) co_return;
  }
}

class WebSocketTest : public testing::Test {
 protected:
  WebSocketTest() { Shake(client_); }

  TestServer server_{EchoMessages, {.body_stall = 1s}};
  TestClient client_{server_.address()};
};

TEST_F(WebSocketTest, EchoesMessagesOfEverySize) {
  for (size_t size : {0, 1, 125, 126, 65535, 65536, 200000}) {
    const std::string text(size, 'x');
    client_.Say(Frame(kFinal | 1, text));
    Received frame = ReadFrame(client_);
    EXPECT_EQ(frame.opcode, 1u);
    EXPECT_EQ(frame.payload, text) << size;
  }
  client_.Say(Frame(kFinal | 2, "\xff\x00"s));
  Received frame = ReadFrame(client_);
  EXPECT_EQ(frame.opcode, 2u);
  EXPECT_EQ(frame.payload, "\xff\x00"s);
}

TEST_F(WebSocketTest, JoinsFragmentsAndAnswersPingsBetweenThem) {
  client_.Say(Frame(1, "h\xc3") + Frame(kFinal | 9, "are you there") + Frame(0, "\xa9") + Frame(kFinal | 0, "llo"));
  Received pong = ReadFrame(client_);
  EXPECT_EQ(pong.opcode, 10u);
  EXPECT_EQ(pong.payload, "are you there");
  EXPECT_EQ(ReadFrame(client_).payload, "héllo");
}

TEST_F(WebSocketTest, AcceptsFramesByteByByte) {
  for (char c : Frame(kFinal | 1, std::string(200, 'y'))) client_.Say({&c, 1});
  EXPECT_EQ(ReadFrame(client_).payload, std::string(200, 'y'));
}

TEST_F(WebSocketTest, AnswersAClose) {
  client_.Say(Frame(kFinal | 8, EncodeClose(1000, "bye")));
  EXPECT_EQ(CloseCode(ReadFrame(client_)), 1000u);
  EXPECT_TRUE(client_.is_at_end());
}

TEST_F(WebSocketTest, StalledMessageClosesTheConnection) {
  client_.Say(Frame(1, "a"));
  EXPECT_EQ(CloseCode(ReadFrame(client_)), 1001u);
  EXPECT_TRUE(client_.is_at_end());
}

TEST_F(WebSocketTest, SilenceBetweenMessagesKeepsTheConnection) {
  std::this_thread::sleep_for(1300ms);
  client_.Say(Frame(kFinal | 1, "a"));
  EXPECT_EQ(ReadFrame(client_).payload, "a");
}

struct BadCase {
  const char* name;
  std::string bytes;
  unsigned code;
};
class BadFrames : public WebSocketTest, public testing::WithParamInterface<BadCase> {};
INSTANTIATE_TEST_SUITE_P(WebSocket, BadFrames,
                         testing::Values(BadCase{"NoMask", "\x81\x02hi", 1002},
                                         BadCase{"ReservedBit", Frame(0xc1, "hi"), 1002},
                                         BadCase{"UnknownOpcode", Frame(kFinal | 3, ""), 1002},
                                         BadCase{"FragmentedPing", Frame(9, ""), 1002},
                                         BadCase{"LongPing", Frame(kFinal | 9, std::string(126, 'x')), 1002},
                                         BadCase{"PieceOfNothing", Frame(kFinal | 0, "x"), 1002},
                                         BadCase{"MessageInMessage", Frame(1, "x") + Frame(kFinal | 1, "y"), 1002},
                                         BadCase{"BadCloseCode", Frame(kFinal | 8, EncodeClose(1005, "")), 1002},
                                         BadCase{"BadText", Frame(kFinal | 1, "\xc0\xaf"), 1007},
                                         BadCase{"HalfACharacter", Frame(kFinal | 1, "\xc3"), 1007},
                                         BadCase{"TooLarge", "\x81\xff\x00\x00\x00\x00\x00\x03\x0d\x41mask"s, 1009},
                                         BadCase{"Enormous", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xffmask"s, 1009},
                                         BadCase{"TooLargeInPieces",
                                                 Frame(1, std::string(150000, 'x')) + Frame(0, std::string(50001, 'x')),
                                                 1009}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(BadFrames, CloseTheConnectionWithTheirCode) {
  client_.Say(GetParam().bytes);
  EXPECT_EQ(CloseCode(ReadFrame(client_)), GetParam().code);
  EXPECT_TRUE(client_.is_at_end());
}

TEST(WebSocketSendTest, SendsWhileReceivingAndSendsOneClose) {
  auto handler = [](Exchange& exchange) -> Task<void> {
    auto socket = co_await exchange.UpgradeToWebSocket({.protocol = "cella"});
    auto talk = [&]() -> Task<bool> {
      for (int i = 0; i < 3; ++i) (void)co_await (*socket)->Send(fmt::format("event {}", i));
      (void)co_await (*socket)->Ping();
      (void)co_await async::SleepUntil(async::TimePoint::max());
      co_return true;
    };
    auto first = co_await async::FirstOf((*socket)->Receive(), talk());
    EXPECT_EQ(first.index(), 0u);
    co_await (*socket)->Close(4000, "done");
    co_await (*socket)->Close(4001, "again");
    EXPECT_FALSE(co_await (*socket)->Send("late"));
  };
  TestServer server(handler);
  TestClient client(server.address());
  Shake(client);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ReadFrame(client).payload, fmt::format("event {}", i));
  EXPECT_EQ(ReadFrame(client).opcode, 9u);
  client.Say(Frame(kFinal | 10, "") + Frame(kFinal | 1, "stop"));
  Received close = ReadFrame(client);
  EXPECT_EQ(CloseCode(close), 4000u);
  EXPECT_THAT(close.payload, HasSubstr("done"));
  EXPECT_TRUE(client.is_at_end());
}

TEST(WebSocketSendTest, FramesOfConcurrentSendersAreNotInterleaved) {
  constexpr size_t kSize = 1 << 20;
  auto handler = [](Exchange& exchange) -> Task<void> {
    auto socket = co_await exchange.UpgradeToWebSocket({.protocol = "cella"});
    auto send = [&](char c) -> Task<bool> {
      auto sent = co_await (*socket)->Send(std::string(kSize, c));
      co_return sent.has_value();
    };
    auto both = [&]() -> Task<bool> {
      auto first = co_await async::FirstOf(send('a'), (*socket)->Receive());
      co_return first.index() == 0;
    };
    // The second one starts while the first waits for room.
    auto other = [&]() -> Task<bool> {
      bool sent = co_await send('b');
      co_return sent;
    };
    using namespace boost::asio::experimental::awaitable_operators;
    auto [a, b] = co_await (both() && other());
    EXPECT_TRUE(a && b);
  };
  TestServer server(handler);
  TestClient client(server.address());
  Shake(client);
  EXPECT_EQ(ReadFrame(client).payload, std::string(kSize, 'a'));
  EXPECT_EQ(ReadFrame(client).payload, std::string(kSize, 'b'));
}

TEST(WebSocketHandshakeTest, RejectsInvalidHandshake) {
  TestServer server(EchoMessages);
  auto without = [](std::string_view line) {
    std::string request(kHandshake);
    size_t at = request.find(line);
    return request.erase(at, request.find("\r\n", at) + 2 - at);
  };
  EXPECT_EQ(TestClient(server.address()).Get("/").status, 426);
  EXPECT_EQ(TestClient(server.address()).Say(without("Upgrade:")).ReadResponse().status, 426);
  EXPECT_EQ(TestClient(server.address()).Say(without("Connection:")).ReadResponse().status, 426);
  EXPECT_EQ(TestClient(server.address()).Say(without("Sec-WebSocket-Key:")).ReadResponse().status, 400);
  TestResponse response = TestClient(server.address()).Say(without("Sec-WebSocket-Version:")).ReadResponse();
  EXPECT_EQ(response.status, 426);
  EXPECT_EQ(response.header("sec-websocket-version"), "13");
}

TEST(WebSocketHandshakeTest, KeepsFramesSentWithTheHandshake) {
  TestServer server(EchoMessages);
  TestClient client(server.address());
  client.Say(std::string(kHandshake) + Frame(kFinal | 1, "early"));
  EXPECT_EQ(client.ReadResponse().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "early");
}

}  // namespace
}  // namespace cella::http
