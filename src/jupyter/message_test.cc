#include "jupyter/message.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "jupyter/json.h"

namespace cella::jupyter {
namespace {

constexpr const char* kKey = "a0436f6c-1916-498b-8eb9-e81ab9368e84";

zmtp::Message Sent(std::vector<std::string> parts) { return {.parts = std::move(parts), .skipped = 0}; }

TEST(SignerTest, ReadsWhatItMade) {
  Signer signer(kKey, "session", "user");
  auto made = signer.Make("execute_request", R"({"code":"1+1"})");
  auto read = signer.Read(Sent(made.parts));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->id, made.id);
  EXPECT_EQ(read->type, "execute_request");
  EXPECT_EQ(read->content, R"({"code":"1+1"})");
  EXPECT_EQ(read->parent_id, "");
  EXPECT_NE(signer.Make("execute_request", "{}").id, made.id);
}

TEST(SignerTest, KeepsRoutingFramesAndBuffersOutOfTheSignature) {
  Signer signer(kKey, "session", "user");
  auto parts = signer.Make("comm_msg", "{}").parts;
  parts.insert(parts.begin(), "stream.stdout");
  parts.emplace_back("buffer");
  EXPECT_TRUE(signer.Read(Sent(parts)).has_value());
}

TEST(SignerTest, NamesTheParentInAReply) {
  Signer signer(kKey, "session", "user");
  Message asked;
  asked.id = "asked_1";
  asked.type = "input_request";
  auto read = signer.Read(Sent(signer.MakeReply("input_reply", "{}", asked).parts));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->parent_id, "asked_1");
}

TEST(SignerTest, RejectsAWrongSignature) {
  Signer signer(kKey, "session", "user");
  Signer other("another key", "session", "user");
  EXPECT_FALSE(signer.Read(Sent(other.Make("status", "{}").parts)).has_value());
  auto parts = signer.Make("status", "{}").parts;
  parts[5] = "{ }";
  EXPECT_FALSE(signer.Read(Sent(parts)).has_value());
  parts = signer.Make("status", "{}").parts;
  parts[1].clear();
  EXPECT_FALSE(signer.Read(Sent(parts)).has_value());
}

TEST(SignerTest, RejectsWhatIsNoMessage) {
  Signer signer("", "session", "user");
  const std::vector<std::vector<std::string>> bad = {{},
                                                     {"<IDS|MSG>"},
                                                     {"<IDS|MSG>", "", "{}", "{}", "{}"},
                                                     {"<IDS|MSG>", "", "[]", "{}", "{}", "{}"},
                                                     {"<IDS|MSG>", "", std::string(100, '['), "{}", "{}", "{}"},
                                                     {"<IDS|MSG>", "", std::string(100'000, ' '), "{}", "{}", "{}"}};
  for (const auto& parts : bad) EXPECT_FALSE(signer.Read(Sent(parts)).has_value());
}

TEST(SignerTest, ReportsAContentThatWasSkipped) {
  Signer signer(kKey, "session", "user");
  zmtp::Message message = Sent(signer.Make("stream", "{}").parts);
  message.parts[5].clear();
  message.skipped = 100;
  auto read = signer.Read(message);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->skipped, 100U);
}

TEST(SignerTest, ReadsHeadersThatOtherKernelsSend) {
  Signer signer("", "session", "user");
  auto read = signer.Read(Sent({"topic", "<IDS|MSG>", "", R"({"msg_id":"1","msg_type":"status"})", "", "{}", "{}"}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->type, "status");
  EXPECT_EQ(read->parent_id, "");
}

TEST(JsonTest, RefusesDeepNestingAndManyElements) {
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100; ++i) deep += '[';
  EXPECT_FALSE(ParseObject(deep).has_value());
  std::string many = R"({"a":[0)";
  for (int i = 0; i < 300'000; ++i) many += ",0";
  EXPECT_FALSE(ParseObject(many + "]}").has_value());
  EXPECT_TRUE(ParseObject(R"({"a":"[[[[,,,,\"[["})").has_value());
}

TEST(HmacTest, MatchesRfc4231) {
  const std::string_view data[] = {"what do ya want ", "for nothing?"};
  EXPECT_EQ(ToHex(HmacSha256("Jefe", data)), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string long_key(131, '\xaa');
  const std::string_view text[] = {"Test Using Larger Than Block-Size Key - Hash Key First"};
  EXPECT_EQ(ToHex(HmacSha256(long_key, text)), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace cella::jupyter
