// The real agent as a child process: without its token it does nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>

#include "agent/wire.h"
#include "executor/container/container.h"
#include "os/io.h"
#include "os/process.h"

namespace cella::executor {
namespace {

struct Ended {
  int exit_code = 0;
  std::string output, errors;
};

template <typename T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(n));
  return all;
}

std::string Hello(const std::string& token, uint32_t protocol = agent::kProtocol) {
  agent::Hello hello = {};
  hello.protocol = protocol;
  const agent::Header header = {static_cast<uint32_t>(sizeof hello + token.size()), agent::Kind::kHello, 0, 0};
  return Bytes(header) + Bytes(hello) + token;
}

// What the agent makes of a stream that begins so and then ends.
Ended Greet(const std::string& auth, const std::string& stream) {
  auto here = os::ProgramDirectory();
  auto in = os::MakePipe(), out = os::MakePipe(), err = os::MakePipe();
  if (!here || !in || !out || !err) return {};
  os::SpawnOptions options;
  options.program = *here + "/runners/cella-agent";
  options.argv = {"cella-agent", "--auth=" + auth};
  options.fds = {{in->read.get(), 0}, {out->write.get(), 1}, {err->write.get(), 2}};
  auto agent = os::Process::Spawn(options);
  EXPECT_TRUE(agent) << options.program;
  if (!agent) return {};
  for (UniqueFd* theirs : {&in->read, &out->write, &err->write}) theirs->Reset();
  (void)os::WriteAll(in->write.get(), stream);  // an agent that refuses may be gone before it has read all
  in->write.Reset();
  Ended ended{0, ReadAll(out->read.get()), ReadAll(err->read.get())};
  auto status = agent->Wait();
  EXPECT_TRUE(status && WIFEXITED(*status));
  if (status) ended.exit_code = WEXITSTATUS(*status);
  return ended;
}

class AgentTokenTest : public testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }

  void ExpectRefused(const Ended& ended, const char* why) {
    EXPECT_EQ(ended.exit_code, agent::kRefusedExit);
    EXPECT_EQ(ended.output, "");
    EXPECT_NE(ended.errors.find(why), std::string::npos) << ended.errors;
  }

  const std::string auth_ = AuthArgument("the token").value_or("");
};

TEST_F(AgentTokenTest, AnswersToTheToken) {
  const Ended ended = Greet(auth_, Hello("the token"));
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  agent::Header header = {};
  ASSERT_GE(ended.output.size(), sizeof header);
  std::memcpy(&header, ended.output.data(), sizeof header);
  EXPECT_EQ(header.kind, agent::Kind::kReady);
}

TEST_F(AgentTokenTest, RefusesOtherTokensAndNone) {
  for (const char* token : {"", "the tokem", "the token ", "the"}) {
    ExpectRefused(Greet(auth_, Hello(token)), "does not carry the token");
  }
}

TEST_F(AgentTokenTest, RefusesFramesBeforeTheToken) {
  std::string ping = Hello("the token");
  const agent::Header header = {0, agent::Kind::kPing, 0, 0};
  ExpectRefused(Greet(auth_, Bytes(header) + ping), "the first frame is no hello");
  ExpectRefused(Greet(auth_, ping.substr(0, ping.size() - 1)), "the first frame is no hello");
}

TEST_F(AgentTokenTest, AsksForNoneOnlyWhereThatWasSaid) {
  EXPECT_EQ(Greet("none", Hello("")).exit_code, 0);
  ExpectRefused(Greet("none", Hello("a token")), "does not carry the token");
  ExpectRefused(Greet("", Hello("")), "it needs --auth");
}

TEST_F(AgentTokenTest, RefusesAnotherProtocol) {
  ExpectRefused(Greet(auth_, Hello("the token", agent::kProtocol + 1)), "another version");
}

}  // namespace
}  // namespace cella::executor
