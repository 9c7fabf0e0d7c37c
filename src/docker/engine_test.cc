// Against a real engine: see README.md.
#include "docker/engine.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "async/deadline.h"

namespace cella::docker {
namespace {

using namespace std::chrono_literals;
using async::Task;
using testing::HasSubstr;

constexpr const char* kLabel = "cella.test.engine";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class EngineTest : public testing::Test {
 protected:
  void SetUp() override {
    image_ = Variable("CELLA_TEST_IMAGE");
    if (image_.empty() || Variable("DOCKER_HOST").empty()) {
      GTEST_SKIP() << "needs an engine: tests/needs/docker.sh start DIR sets DOCKER_HOST and CELLA_TEST_IMAGE";
    }
    auto address = FindEngine("", EngineSurroundings::FromProcess());
    ASSERT_TRUE(address) << address.error().message;
    engine_.emplace(loop_, std::move(*address));
    Status ready = loop_.Run(engine_->Negotiate());
    ASSERT_TRUE(ready) << ready.error().message;
  }

  ContainerSpec Spec(std::vector<std::string> command) {
    ContainerSpec spec;
    spec.image = image_;
    spec.entrypoint = std::move(command);
    spec.labels = {{kLabel, "1"}};
    spec.memory = 64 << 20;
    spec.cpus = 0.5;
    spec.pids = 16;
    spec.tmpfs = {{"/workspace", "rw,exec,nosuid,nodev,size=1m,mode=1777"}};
    spec.working_dir = "/workspace";
    return spec;
  }

  // All that the container writes to stdout, after it was sent `input`.
  Task<Result<std::string>> Exchange(ContainerSpec spec, std::string input, ContainerFacts* facts) {
    auto created = co_await engine_->Create(spec, "");
    CO_TRY(std::string id, std::move(created));
    auto attached = co_await engine_->Attach(id);
    CO_TRY(AttachedStream stream, std::move(attached));
    auto started = co_await engine_->Start(id);
    CO_TRY_VOID(started);
    auto inspected = co_await engine_->Inspect(id);
    CO_TRY(*facts, std::move(inspected));
    auto written = co_await stream.Write(input, 5s);
    CO_TRY_VOID(written);
    std::string all;
    for (;;) {
      std::array<char, 4096> buffer;
      auto read = co_await stream.Read(buffer);
      CO_TRY(size_t size, std::move(read));
      if (size == 0) break;
      all.append(buffer.data(), size);
    }
    errors_ = stream.errors();
    auto removed = co_await async::WithDeadline(engine_->WaitRemoved(id), async::Clock::now() + 20s);
    if (!removed) co_return Err(ErrorCode::kClosed, "the container was not removed");
    co_return all;
  }

  async::Loop loop_;
  std::string image_;
  std::optional<Engine> engine_;
  std::string errors_;
};

TEST_F(EngineTest, RunsAContainerAndReadsItsStreams) {
  ContainerFacts facts;
  const char* script = "read line; echo \"got $line\"; echo problem >&2";
  auto answer = loop_.Run(Exchange(Spec({"/bin/sh", "-c", script}), "a line\n", &facts));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "got a line\n");
  EXPECT_EQ(errors_, "problem\n");
}

TEST_F(EngineTest, EngineReportsEveryLimitThatWasAskedFor) {
  ContainerFacts facts;
  ContainerSpec spec = Spec({"/bin/sh", "-c", "read line"});
  auto answer = loop_.Run(Exchange(spec, "\n", &facts));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(CompareWithRequest(spec, facts).empty());
  EXPECT_EQ(facts.labels[kLabel], "1");
  EXPECT_EQ(facts.log_driver, "none");
  EXPECT_TRUE(facts.auto_remove);
}

TEST_F(EngineTest, RemovesAndKillsContainersThatRun) {
  auto scenario = [&]() -> Task<Status> {
    ContainerSpec spec = Spec({"/bin/sh", "-c", "sleep 600"});
    for (bool kill : {true, false}) {
      auto created = co_await engine_->Create(spec, "");
      CO_TRY(std::string id, std::move(created));
      auto started = co_await engine_->Start(id);
      CO_TRY_VOID(started);
      auto listed = co_await engine_->List(kLabel);
      CO_TRY(auto found, std::move(listed));
      if (std::ranges::none_of(found, [&](const auto& one) { return one.id == id; })) {
        co_return Err(ErrorCode::kInternal, "the container is not listed");
      }
      auto ended = kill ? co_await engine_->Kill(id) : co_await engine_->Remove(id);
      CO_TRY_VOID(ended);
      auto removed = co_await async::WithDeadline(engine_->WaitRemoved(id), async::Clock::now() + 20s);
      if (!removed) co_return Err(ErrorCode::kClosed, "the container was not removed");
      auto again = co_await engine_->Remove(id);
      CO_TRY_VOID(again);
    }
    co_return Status{};
  };
  Status done = loop_.Run(scenario());
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(EngineTest, NamesAnImageThatIsNotThere) {
  auto has = loop_.Run(engine_->HasImage(image_));
  ASSERT_TRUE(has) << has.error().message;
  EXPECT_TRUE(*has);
  EXPECT_FALSE(loop_.Run(engine_->HasImage("cella-test/none:1")).value());
  ContainerSpec spec = Spec({"/bin/true"});
  spec.image = "cella-test/none:1";
  auto created = loop_.Run(engine_->Create(spec, ""));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(created.error().message, HasSubstr("cella-test/none:1"));
}

TEST_F(EngineTest, CopiesAnArchiveIntoAVolumeOfAContainerThatHasNotStarted) {
  // A tar archive with one file, "hello".
  std::string tar(512, '\0');
  auto put = [&](size_t at, std::string_view text) { tar.replace(at, text.size(), text); };
  put(0, "hello");
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, "00000000003");
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (char c : tar) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  tar[154] = '\0';
  tar += "hi\n";
  tar.resize(512 * 4, '\0');
  auto scenario = [&]() -> Task<Result<std::string>> {
    ContainerSpec spec = Spec({"/bin/sh", "-c", "cat /given/hello"});
    spec.volumes = {"/given"};
    auto created = co_await engine_->Create(spec, "");
    CO_TRY(std::string id, std::move(created));
    auto copied = co_await engine_->PutArchive(id, "/given", tar);
    CO_TRY_VOID(copied);
    auto attached = co_await engine_->Attach(id);
    CO_TRY(AttachedStream stream, std::move(attached));
    auto started = co_await engine_->Start(id);
    CO_TRY_VOID(started);
    std::array<char, 64> buffer;
    auto read = co_await stream.Read(buffer);
    CO_TRY(size_t size, std::move(read));
    (void)co_await engine_->WaitRemoved(id);
    co_return std::string(buffer.data(), size);
  };
  auto text = loop_.Run(scenario());
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "hi\n");
}

TEST(EngineWithoutDaemonTest, NamesTheRemedy) {
  async::Loop loop;
  EngineAddress address;
  address.url = http::ParseUrl("unix:/nonexistent/docker.sock").value();
  Engine engine(loop, address);
  Status ready = loop.Run(engine.Negotiate());
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(ready.error().message, HasSubstr("start Docker or Podman"));
}

}  // namespace
}  // namespace cella::docker
