#include "server/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"

namespace cella::server {
namespace {

using Json = nlohmann::json;

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends = {};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
  }

  std::string Written() {
    std::string all;
    std::array<char, 65536> buffer = {};
    for (ssize_t n = 0; (n = read(read_.get(), buffer.data(), buffer.size())) > 0;) {
      all.append(buffer.data(), static_cast<size_t>(n));
    }
    return all;
  }

  UniqueFd read_, write_;
};

TEST_F(LogTest, WritesOneJsonObjectPerLine) {
  Log log(LogLevel::kInfo, LogFormat::kAuto, write_.get());
  log.Write(LogLevel::kInfo, "session.opened", "session opened",
            {{"client", "a\n\"b\""}, {"took_ms", 1.5}, {"runs", int64_t{3}}, {"name", ""}});
  const std::string line = Written();
  ASSERT_EQ(line.find('\n'), line.size() - 1);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["event"], "session.opened");
  EXPECT_EQ(json["client"], "a\n\"b\"");
  EXPECT_EQ(json["took_ms"], 1.5);
  EXPECT_EQ(json["runs"], 3);
  EXPECT_FALSE(json.contains("name"));
}

TEST_F(LogTest, OmitsMessagesBelowTheLevel) {
  Log log(LogLevel::kWarning, LogFormat::kJson, write_.get());
  log.Write(LogLevel::kInfo, "a", "a");
  EXPECT_EQ(Written(), "");
  log.Write(LogLevel::kWarning, "b", "b");
  EXPECT_NE(Written(), "");
}

TEST_F(LogTest, TextStaysOneLineAndHasNoControlCharacters) {
  Log log(LogLevel::kInfo, LogFormat::kText, write_.get());
  log.Write(LogLevel::kWarning, "a", "refused", {{"client", "x\n\x1b[2Jy"}});
  EXPECT_EQ(Written(), "warning: refused client=x  [2Jy\n");
}

TEST_F(LogTest, InvalidUtf8GivesValidJson) {
  Log log(LogLevel::kInfo, LogFormat::kJson, write_.get());
  log.Write(LogLevel::kInfo, "a", "\xff\xfe");
  EXPECT_FALSE(Json::parse(Written(), nullptr, false).is_discarded());
}

TEST_F(LogTest, LongTextsAreClippedAndTheLineIsValidJson) {
  Log log(LogLevel::kInfo, LogFormat::kJson, write_.get());
  const std::string text(100'000, '\x01');
  log.Write(LogLevel::kInfo, "a", text, {{"x", text}, {"y", text}});
  const std::string line = Written();
  EXPECT_LE(line.size(), 4096U);
  EXPECT_EQ(Json::parse(line)["event"], "a");
}

TEST_F(LogTest, DropsMessagesWithoutAReaderAndReportsTheCount) {
  Log log(LogLevel::kInfo, LogFormat::kJson, write_.get());
  // The end that we write to blocks like an ordinary one: a log that waited would hang here.
  ASSERT_EQ(fcntl(write_.get(), F_SETFL, 0), 0);
  for (int i = 0; i < 5000; ++i) log.Write(LogLevel::kInfo, "a", "a");
  (void)Written();
  log.Write(LogLevel::kInfo, "b", "b");
  const std::string text = Written();
  EXPECT_NE(text.find("log.dropped"), std::string::npos) << text;
}

}  // namespace
}  // namespace cella::server
