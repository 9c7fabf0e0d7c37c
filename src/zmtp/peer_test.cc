#include "zmtp/peer.h"

#include <gtest/gtest.h>

namespace cella::zmtp {
namespace {

std::string GreetingOf(int major, int minor, std::string_view mechanism = "NULL") {
  std::string greeting(64, '\0');
  greeting[0] = '\xff';
  greeting[9] = '\x7f';
  greeting[10] = static_cast<char>(major);
  greeting[11] = static_cast<char>(minor);
  greeting.replace(12, mechanism.size(), mechanism);
  return greeting;
}

std::string CommandFrame(std::string_view name, std::string_view data) {
  std::string body(1, static_cast<char>(name.size()));
  body.append(name).append(data);
  std::string frame;
  AppendFrame(frame, body, false, true);
  return frame;
}

std::string Ready(std::string_view socket_type) {
  std::string data("\x0bSocket-Type\0\0\0", 15);
  data += static_cast<char>(socket_type.size());
  return CommandFrame("READY", data.append(socket_type));
}

Peer Connected(SocketKind kind, std::string_view theirs, int minor = 1) {
  Peer peer({.kind = kind, .identity = "me", .bounds = {}});
  EXPECT_TRUE(peer.Take(GreetingOf(3, minor) + Ready(theirs)).has_value());
  EXPECT_TRUE(peer.ready());
  return peer;
}

TEST(PeerTest, GreetsAsZmtp31AndNamesItsIdentity) {
  Peer peer({.kind = SocketKind::kDealer, .identity = "me", .bounds = {}});
  EXPECT_EQ(peer.TakeOutput(), GreetingOf(3, 1));
  ASSERT_TRUE(peer.Take(GreetingOf(3, 0)).has_value());
  const std::string ready = peer.TakeOutput();
  EXPECT_NE(ready.find("DEALER"), std::string::npos);
  EXPECT_NE(ready.find(std::string("Identity\0\0\0\x02me", 14)), std::string::npos);
  EXPECT_FALSE(peer.ready());
}

TEST(PeerTest, SubscribesByCommandOrByMessageAsThePeersVersionAllows) {
  Peer newer({.kind = SocketKind::kSub, .identity = {}, .bounds = {}});
  ASSERT_TRUE(newer.Take(GreetingOf(3, 1)).has_value());
  (void)newer.TakeOutput();
  ASSERT_TRUE(newer.Take(Ready("XPUB")).has_value());
  EXPECT_EQ(newer.TakeOutput(), CommandFrame("SUBSCRIBE", ""));
  Peer older({.kind = SocketKind::kSub, .identity = {}, .bounds = {}});
  ASSERT_TRUE(older.Take(GreetingOf(3, 0)).has_value());
  (void)older.TakeOutput();
  ASSERT_TRUE(older.Take(Ready("PUB")).has_value());
  EXPECT_EQ(older.TakeOutput(), std::string("\0\x01\x01", 3));
}

TEST(PeerTest, RefusesOlderPeersWithASentenceAsSoonAsTheyShow) {
  struct Case {
    std::string bytes, sentence;
  };
  const std::string zmtp2 = GreetingOf(1, 0).substr(0, 12);
  for (const Case& c :
       {Case{zmtp2, "ZMTP 2"}, Case{std::string("\x01", 1), "does not speak ZMTP 3"},
        Case{"HTTP/1.1 400 Bad Request", "does not speak ZMTP 3"}, Case{GreetingOf(3, 0, "CURVE"), "'CURVE'"}}) {
    Peer peer({});
    auto taken = peer.Take(c.bytes);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(taken.error().message.find(c.sentence), std::string::npos) << taken.error().message;
  }
}

TEST(PeerTest, RefusesASocketOfAnotherKind) {
  Peer peer({.kind = SocketKind::kSub, .identity = {}, .bounds = {}});
  auto taken = peer.Take(GreetingOf(3, 1) + Ready("ROUTER"));
  ASSERT_FALSE(taken.has_value());
  EXPECT_NE(taken.error().message.find("ROUTER"), std::string::npos);
}

TEST(PeerTest, RefusesMessagesBeforeReadyAndReportsThePeersError) {
  Peer early({});
  EXPECT_FALSE(early.Take(GreetingOf(3, 1) + Peer::Encode({"hello"})).has_value());
  Peer refused({});
  auto taken = refused.Take(GreetingOf(3, 1) + CommandFrame("ERROR", std::string("\x04") + "busy"));
  ASSERT_FALSE(taken.has_value());
  EXPECT_NE(taken.error().message.find("busy"), std::string::npos);
}

TEST(PeerTest, RefusesAReadyThatIsCutShort) {
  for (const std::string& data :
       {std::string("\x0bSocket"), std::string("\x01x\0\0\0\xff", 6), std::string("\x01x\0", 3)}) {
    Peer peer({});
    EXPECT_FALSE(peer.Take(GreetingOf(3, 1) + CommandFrame("READY", data)).has_value());
  }
}

TEST(PeerTest, HandsOnWholeMessagesInOrder) {
  Peer peer = Connected(SocketKind::kDealer, "ROUTER");
  const std::string bytes = Peer::Encode({"a", "", std::string(1000, 'b')}) + Peer::Encode({"c"});
  ASSERT_TRUE(peer.Take(std::string_view(bytes).substr(0, 20)).has_value());
  EXPECT_FALSE(peer.Next().has_value());
  ASSERT_TRUE(peer.Take(std::string_view(bytes).substr(20)).has_value());
  auto first = peer.Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->parts, (std::vector<std::string>{"a", "", std::string(1000, 'b')}));
  EXPECT_EQ(peer.Next()->parts, std::vector<std::string>{"c"});
  EXPECT_FALSE(peer.Next().has_value());
}

TEST(PeerTest, AnswersPingWithItsContextAndIgnoresUnknownCommands) {
  Peer peer = Connected(SocketKind::kDealer, "ROUTER");
  (void)peer.TakeOutput();
  ASSERT_TRUE(peer.Take(CommandFrame("PING", std::string("\0\x0a", 2) + "context")).has_value());
  EXPECT_EQ(peer.TakeOutput(), CommandFrame("PONG", "context"));
  ASSERT_TRUE(peer.Take(CommandFrame("NEWER", "x")).has_value());
  EXPECT_EQ(peer.TakeOutput(), "");
}

}  // namespace
}  // namespace cella::zmtp
