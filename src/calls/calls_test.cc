// The call socket with a hostile client at the other end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "calls/arguments.h"
#include "calls/door.h"
#include "calls/frame.h"
#include "os/unix_listener.h"

namespace cella::calls {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

std::string Frame(const std::string& header, const std::string& body) {
  std::string frame;
  for (size_t size : {header.size(), body.size()}) {
    for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(size >> shift & 0xff));
  }
  return frame + header + body;
}

std::string Call(const std::string& operation, const std::string& arguments = R"({"args":[]})") {
  return Frame(json{{"space", "test"}, {"operation", operation}}.dump(), arguments);
}

TEST(FrameTest, RejectsPartsThatAreTooLarge) {
  EXPECT_TRUE(DecodePrefix({'\x10', 0, 0, 0, 0, 0, '\x10', 0}));
  EXPECT_FALSE(DecodePrefix({'\x10', 0, 0, 0, 1, 0, '\x10', 0}));
  EXPECT_FALSE(DecodePrefix({1, '\x10', 0, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(DecodePrefix({'\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'}));
}

TEST(FrameTest, RejectsHeadersThatNameNoCall) {
  EXPECT_TRUE(DecodeCall(R"({"space":"deps","operation":"add"})", ""));
  const std::string long_name(129, 'x');
  for (const std::string& header :
       {std::string(""), std::string("[]"), std::string("{}"), std::string(R"({"space":"a"})"),
        std::string(R"({"space":1,"operation":"b"})"), std::string(R"({"space":"","operation":"b"})"),
        std::string(R"({"space":"a b","operation":"b"})"), std::string(R"({"space":"a","operation":"../b"})"),
        std::string(R"({"space":"a","operation":"b\u0000"})"), R"({"space":"a","operation":")" + long_name + "\"}",
        std::string(2000, '[')}) {
    EXPECT_FALSE(DecodeCall(header, "")) << header;
  }
}

TEST(ArgumentsTest, KeepTheirOrder) {
  auto arguments = ParseArguments(R"({"args":[1,{"z":1,"a":2}],"kwargs":[["y",[1]],["b",null]]})");
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->positional[1], json::parse(R"({"a":2,"z":1})"));
  EXPECT_EQ(arguments->named[0].first, "y");
  EXPECT_EQ(arguments->named[1].first, "b");
  ASSERT_NE(arguments->Find(7, "y"), nullptr);
  EXPECT_EQ(arguments->Find(0, "y")->dump(), "1");
  EXPECT_EQ(arguments->Find(2, "none"), nullptr);
}

TEST(ArgumentsTest, RejectsWhatIsNoSuchText) {
  std::string many = R"({"kwargs":[["a0",0])";
  for (int i = 1; i <= 1000; ++i) many += ",[\"a" + std::to_string(i) + "\",0]";
  for (const std::string& text :
       {std::string(""), std::string("null"), std::string(R"({"args":1})"), std::string(R"({"kwargs":{"a":1}})"),
        std::string(R"({"kwargs":[["a"]]})"), std::string(R"({"kwargs":[["a",1],["a",2]]})"), std::string(100'000, '['),
        many + "]}"}) {
    EXPECT_FALSE(ParseArguments(text)) << text.substr(0, 40);
  }
}

// An object of 100,000 keys fits into a frame, and must not be searched for each of them.
TEST(ArgumentsTest, RejectsMoreValuesThanAHandlerNeeds) {
  std::string wide = R"({"args":[{"k":0)", list = R"({"args":[0)";
  for (int i = 0; i < 100'000; ++i) {
    wide += ",\"" + std::to_string(i) + "\":0";
    list += ",0";
  }
  for (const std::string& text : {wide + "}]}", list + "]}"}) {
    auto refused = ParseArguments(text);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  }
}

// "echo" answers its arguments, "hang" waits for its cancellation, "large" answers too much.
class Handler : public run::HostCallHandler {
 public:
  explicit Handler(async::Loop& loop) : never_(loop) {}
  async::Task<run::HostReply> Serve(run::HostCall call) override {
    ++served;
    run::HostReply reply;
    if (call.operation == "echo") reply.value = call.arguments;
    if (call.operation == "large") reply.value = "\"" + std::string(2 << 20, 'x') + "\"";
    if (call.operation == "fail") reply.error = run::HostError{"Failed", "no"};
    if (call.operation == "hang") cancelled += co_await never_.Wait() ? 0 : 1;
    co_return reply;
  }
  int served = 0;
  int cancelled = 0;

 private:
  async::Event never_;
};

class DoorTest : public testing::Test {
 protected:
  DoorTest() {
    (void)signal(SIGPIPE, SIG_IGN);  // of the clients here
    path_ = testing::TempDir() + "/cella-calls-" + std::to_string(getpid());
    auto listener = os::ListenUnix(path_, 128);
    EXPECT_TRUE(listener);
    gate_.Route(run::CallDoor::kSocket, "test", handler_);
    gate_.Route(run::CallDoor::kRunner, "input", handler_);
    gate_.SetRecorder([this](const run::HostCallRecord& record) { outcomes_.push_back(record.outcome); });
    door_.emplace(loop_, gate_, std::move(*listener));
  }
  ~DoorTest() override { std::filesystem::remove(path_); }

  void Begin() {
    gate_.BeginRun();
    gate_.Open([](run::HostReply) {});
    door_->Open();
  }
  async::Task<void> End() {
    co_await gate_.Close();
    co_await door_->Close();
  }

  async::Descriptor Connect() {
    UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return async::Descriptor(loop_, std::move(client), async::Sharing::kOurs);
  }

  static async::Task<std::string> Take(async::Descriptor& client, size_t size) {
    std::string text(size, '\0');
    size_t have = 0;
    while (have < size) {
      auto n = co_await client.ReadSome({text.data() + have, size - have});
      if (!n || *n == 0) co_return "";
      have += *n;
    }
    co_return text;
  }

  // The answer, {"error": ...} or {"value": ...}; null at the end of the connection.
  static async::Task<json> Receive(async::Descriptor& client) {
    const std::string prefix = co_await Take(client, kPrefixBytes);
    if (prefix.empty()) co_return nullptr;
    auto number = [&](size_t at) {
      return static_cast<size_t>(static_cast<uint8_t>(prefix[at])) |
             static_cast<size_t>(static_cast<uint8_t>(prefix[at + 1])) << 8 |
             static_cast<size_t>(static_cast<uint8_t>(prefix[at + 2])) << 16;
    };
    json header = json::parse(co_await Take(client, number(0)));
    if (header.contains("error")) co_return header;
    const std::string body = co_await Take(client, number(4));
    co_return json{{"value", json::parse(body)}};
  }

  async::Task<json> Ask(async::Descriptor& client, std::string frame) {
    (void)co_await client.WriteAll(frame);
    auto answer = co_await async::WithDeadline(Receive(client), async::Clock::now() + 20s);
    co_return answer ? *answer : json("no answer");
  }

  template <typename Body>
  void Do(Body body) {
    auto all = [&]() -> async::Task<void> {
      co_await body();
      co_await End();
      co_await door_->Stop();
    };
    loop_.Run(all());
  }

  std::string path_;
  async::Loop loop_;
  Handler handler_{loop_};
  run::HostCalls gate_{loop_};
  std::optional<Door> door_;
  std::vector<std::string> outcomes_;
};

TEST_F(DoorTest, AnswersCallsOfOneConnectionInTurn) {
  Do([&]() -> async::Task<void> {
    Begin();
    auto client = Connect();
    for (int i = 0; i < 3; ++i) {
      const json answer = co_await Ask(client, Call("echo", "{\"args\":[" + std::to_string(i) + "]}"));
      EXPECT_EQ(answer["value"]["args"][0], i);
    }
    const json failed = co_await Ask(client, Call("fail"));
    EXPECT_EQ(failed["error"]["type"], "Failed");
    const json large = co_await Ask(client, Call("large"));
    EXPECT_EQ(large["error"]["type"], "CallRefused");
    const json body = co_await Ask(client, Call("echo", "\"" + std::string(kMaxBodyBytes - 2, 'b') + "\""));
    EXPECT_EQ(body["value"].get<std::string>().size(), kMaxBodyBytes - 2);
  });
}

TEST_F(DoorTest, RefusesUnknownNamespacesAndThoseOfTheRunner) {
  Do([&]() -> async::Task<void> {
    Begin();
    auto client = Connect();
    for (const char* space : {"input", "other"}) {
      const json answer = co_await Ask(client, Frame(json{{"space", space}, {"operation", "line"}}.dump(), ""));
      EXPECT_EQ(answer["error"]["type"], "CallRefused") << space;
    }
    EXPECT_EQ(handler_.served, 0);
  });
}

TEST_F(DoorTest, RefusesConnectionsBetweenRuns) {
  Do([&]() -> async::Task<void> {
    auto early = Connect();
    const json refused = co_await Ask(early, "");
    EXPECT_EQ(refused["error"]["message"], "no run is on");
    auto waiting = Connect();  // not accepted yet when the run begins
    Begin();
    const json late = co_await Ask(waiting, "");
    EXPECT_EQ(late["error"]["message"], "no run is on");
    auto held = Connect();
    const json served = co_await Ask(held, Call("echo"));
    EXPECT_TRUE(served.contains("value"));
    co_await End();
    const json ended = co_await Ask(held, "");
    EXPECT_TRUE(ended.is_null());
  });
  EXPECT_EQ(handler_.served, 1);
}

TEST_F(DoorTest, CancelsCallsWhenTheRunEnds) {
  Do([&]() -> async::Task<void> {
    Begin();
    auto client = Connect();
    (void)co_await client.WriteAll(Call("hang"));
    while (handler_.served == 0) co_await async::Yield();
    co_await End();
    EXPECT_EQ(handler_.cancelled, 1);
    EXPECT_EQ(outcomes_, std::vector<std::string>{"cancelled"});
  });
}

TEST_F(DoorTest, BoundsCallsAtOnceAndCallsOfARun) {
  Do([&]() -> async::Task<void> {
    Begin();
    std::vector<async::Descriptor> hanging;
    for (int i = 0; i < 16; ++i) {
      hanging.push_back(Connect());
      (void)co_await hanging.back().WriteAll(Call("hang"));
    }
    while (handler_.served < 16) co_await async::Yield();
    auto client = Connect();
    const json refused = co_await Ask(client, Call("echo"));
    EXPECT_EQ(refused["error"]["message"], "more than 16 calls at once");
    co_await End();
    Begin();
    auto again = Connect();
    for (int i = 0; i < 10'000; ++i) (void)co_await Ask(again, Call("echo"));
    const json last = co_await Ask(again, Call("echo"));
    EXPECT_EQ(last["error"]["message"], "more than 10000 calls in one run");
    EXPECT_EQ(handler_.served, 10'016);
  });
}

TEST_F(DoorTest, RefusesConnectionsBeyondTheBound) {
  Do([&]() -> async::Task<void> {
    Begin();
    std::vector<async::Descriptor> idle;
    for (int i = 0; i < 32; ++i) idle.push_back(Connect());
    auto client = Connect();
    const json refused = co_await Ask(client, Call("echo"));
    EXPECT_EQ(refused["error"]["message"], "more than 32 connections at once");
    idle.clear();
    // Their ends are noticed, and then there is room.
    for (bool served = false; !served;) {
      auto next = Connect();
      const json answer = co_await Ask(next, Call("echo"));
      served = answer.contains("value");
    }
  });
}

TEST_F(DoorTest, EndsConnectionsThatSendNoFrame) {
  Do([&]() -> async::Task<void> {
    Begin();
    auto garbage = Connect();
    const json answer = co_await Ask(garbage, std::string(64, '\xff'));
    EXPECT_EQ(answer["error"]["type"], "CallRefused");
    auto half = Connect();
    const json ended = co_await Ask(half, Call("echo").substr(0, 20));
    EXPECT_TRUE(ended.is_null());
    EXPECT_EQ(handler_.served, 0);
  });
}

}  // namespace
}  // namespace cella::calls
