#include "server/tokens.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "server/token_file.h"

namespace cella::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kHashOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string ClientOf(const TokenSet& set, std::string_view token) {
  const std::string* client = set.Find(token);
  return client == nullptr ? "-" : *client;
}

TEST(TokenSetTest, ReadsNamesHashesAndTheDefault) {
  auto set = TokenSet::Parse(
      "# clients\n\nalice:secret-a\r\n  bob:sha256:" + kHashOfAbc + "  \nplain-token\ncarol:with:colons\n#dave:off",
      "t");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->entries().size(), 4u);
  EXPECT_EQ(ClientOf(*set, "secret-a"), "alice");
  EXPECT_EQ(ClientOf(*set, "abc"), "bob");
  EXPECT_EQ(ClientOf(*set, "plain-token"), "default");
  EXPECT_EQ(ClientOf(*set, "with:colons"), "carol");
  for (const std::string& wrong : {std::string(), std::string("secret-b"), std::string("off"), kHashOfAbc,
                                   "sha256:" + kHashOfAbc, std::string("alice:secret-a"), std::string(1 << 20, 'x')}) {
    EXPECT_EQ(ClientOf(*set, wrong), "-") << wrong.substr(0, 80);
  }
}

TEST(TokenSetTest, FindsTokensAtEveryPosition) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("c{}:token-{}\n", i, i);
  auto set = TokenSet::Parse(text, "t");
  ASSERT_TRUE(set);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(ClientOf(*set, fmt::format("token-{}", i)), fmt::format("c{}", i));
}

TEST(TokenSetTest, MalformedLineErrorHasItsNumberButNotItsText) {
  const std::string upper = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"a:HUSH\na:HUSH2", "t:2: the client of line 1 is there again"},
           {"a:HUSH\nb:HUSH", "t:2: the token of line 1 is there again"},
           {"HUSH\nHUSH2", "t:2: the client of line 1"},
           {"a:abc\nb:sha256:" + upper, "t:2: the token of line 1 is there again"},
           {"\nHUSH HUSH", "t:2: "},
           {"a:", "t:1: "},
           {":HUSH", "t:1: "},
           {"HU SH:HUSH", "t:1: "},
           {"sha256:" + kHashOfAbc, "t:1: "},
           {"a:sha256:HUSH", "t:1: what follows 'sha256:' is not 64"},
           {"a:sha256:" + kHashOfAbc + "00", "t:1: "},
           {"a:HUSH\x01", "t:1: "},
           {std::string("a:HUSH\0", 7), "t:1: "},
           {"a:" + std::string(2000, 'H'), "t:1: "}}) {
    auto set = TokenSet::Parse(text, "t");
    ASSERT_FALSE(set) << text;
    EXPECT_THAT(set.error().message, StartsWith(message)) << text;
    EXPECT_THAT(set.error().message, Not(HasSubstr("HUSH")));
    EXPECT_THAT(set.error().message, Not(HasSubstr("ba7816")));
  }
}

TEST(BearerTokenTest, AcceptsOnlyBearerHeaders) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bearer  abc "), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc", "Bearer a b", "Bearer a\x01"}) {
    EXPECT_EQ(BearerToken(none), "") << none;
  }
}

class TokenFileTest : public ::testing::Test {
 protected:
  TokenFileTest() {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~TokenFileTest() override { fs::remove_all(dir_); }

  void Write(std::string_view text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    fs::permissions(path_, static_cast<fs::perms>(mode));
  }
  std::string Content() const {
    std::stringstream content;
    content << std::ifstream(path_).rdbuf();
    return content.str();
  }

  fs::path dir_ = fs::temp_directory_path() / fmt::format("cella_tokens_{}", getpid());
  std::string path_ = dir_ / "tokens";
};

TEST_F(TokenFileTest, RejectsFileAccessibleToOthers) {
  for (mode_t mode : {0600, 0400}) {
    Write("a:b\n", mode);
    EXPECT_TRUE(TokenSet::Load(path_)) << mode;
  }
  for (mode_t mode : {0640, 0604, 0620, 0666, 0700}) {
    Write("a:b\n", mode);
    auto set = TokenSet::Load(path_);
    ASSERT_FALSE(set) << mode;
    EXPECT_EQ(set.error().code, ErrorCode::kPermission);
    EXPECT_THAT(set.error().message, HasSubstr("chmod 600"));
  }
}

TEST_F(TokenFileTest, RejectsFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  Write("a:b\n");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  auto set = TokenSet::Load(path_);
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message, HasSubstr("another user (uid 12345)"));
}

TEST_F(TokenFileTest, SpecialFileDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(TokenSet::Load(path_));
  EXPECT_FALSE(TokenSet::Load(dir_));
  EXPECT_EQ(TokenSet::Load(dir_ / "none").error().code, ErrorCode::kNotFound);
}

TEST_F(TokenFileTest, MalformedFileDoesNotReplaceCurrentTokens) {
  Write("a:one\n");
  Tokens tokens(path_);
  ASSERT_TRUE(tokens.Reload());
  for (const char* bad : {"a:one\na:two\n", "a b\n"}) {
    Write(bad);
    EXPECT_FALSE(tokens.Reload());
    EXPECT_NE(tokens.Find("one"), nullptr) << bad;
  }
  Write("a:two\n", 0644);
  EXPECT_FALSE(tokens.Reload());
  EXPECT_NE(tokens.Find("one"), nullptr);
  Write("a:two\n");
  ASSERT_TRUE(tokens.Reload());
  EXPECT_EQ(tokens.Find("one"), nullptr) << "a removed token no longer opens anything";
  EXPECT_NE(tokens.Find("two"), nullptr);
}

TEST_F(TokenFileTest, StoresTheHashOfANewToken) {
  std::string path = dir_ / "new/inner/tokens";
  auto token = AddToken(path, "alice");
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->size(), 6u + 43u);
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((dir_ / "new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  path_ = path;
  EXPECT_THAT(Content(), Not(HasSubstr(*token)));
  auto set = TokenSet::Load(path);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(ClientOf(*set, *token), "alice");
  auto other = AddToken(path, "bob");
  ASSERT_TRUE(other);
  EXPECT_NE(*other, *token);
}

TEST_F(TokenFileTest, KeepsOtherLines) {
  Write("# mine\nold:secret");
  ASSERT_TRUE(AddToken(path_, "new"));
  EXPECT_THAT(Content(), StartsWith("# mine\nold:secret\nnew:sha256:"));
  ASSERT_TRUE(RemoveToken(path_, "old"));
  EXPECT_THAT(Content(), StartsWith("# mine\nnew:sha256:"));
  ASSERT_TRUE(RemoveToken(path_, "new"));
  EXPECT_EQ(Content(), "# mine\n");
  EXPECT_EQ(RemoveToken(path_, "new").error().code, ErrorCode::kNotFound);
  for (const auto& entry : fs::directory_iterator(dir_)) EXPECT_EQ(entry.path().filename(), "tokens");
}

TEST_F(TokenFileTest, RejectsChangesThatWouldMakeTheFileInvalid) {
  ASSERT_TRUE(AddToken(path_, "a"));
  const std::string before = Content();
  EXPECT_THAT(AddToken(path_, "a").error().message, HasSubstr("has a token already"));
  for (const char* bad : {"", "a b", "x:y", "sha256", "a\nb", "../x"}) EXPECT_FALSE(AddToken(path_, bad)) << bad;
  EXPECT_EQ(Content(), before);
  Write("a b", 0600);
  EXPECT_FALSE(AddToken(path_, "c")) << "a bad file is not made worse";
  Write("a:b", 0644);
  EXPECT_EQ(AddToken(path_, "c").error().code, ErrorCode::kPermission);
  EXPECT_EQ(RemoveToken(dir_ / "none/tokens", "a").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(dir_ / "none"));
}

TEST_F(TokenFileTest, KeepsLinks) {
  fs::create_directory(dir_ / "real");
  std::string link = dir_ / "link";
  path_ = dir_ / "real/tokens";
  Write("a:b\n");
  fs::create_symlink(path_, link);
  ASSERT_TRUE(AddToken(link, "c"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_THAT(Content(), HasSubstr("c:sha256:"));
}

TEST_F(TokenFileTest, ConcurrentChangesAreAllKept) {
  constexpr int kEach = 10;
  auto add = [&](const char* who) {
    for (int i = 0; i < kEach; ++i) EXPECT_TRUE(AddToken(path_, fmt::format("{}{}", who, i)));
  };
  std::thread one(add, "x"), two(add, "y"), three(add, "z");
  one.join();
  two.join();
  three.join();
  auto set = TokenSet::Load(path_);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->entries().size(), 3u * kEach);
}

}  // namespace
}  // namespace cella::server
