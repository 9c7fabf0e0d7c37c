#include "server/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policy/key_samples.h"
#include "policy/read.h"
#include "server/config_reader.h"

namespace cella::server {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// data/ and pythons/ are what the operator allowed, secret/ is not.
class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    // The real path: /tmp may be a link.
    root_ = fs::canonical(fs::temp_directory_path()) / fmt::format("cella_admission_{}", getpid());
    fs::remove_all(root_);
    for (const char* dir : {"data/set", "data-other", "secret", "pythons/bin"}) fs::create_directories(root_ / dir);
    fs::create_directory_symlink(root_ / "secret", root_ / "data/planted");
    fs::create_directory_symlink(root_ / "data", root_ / "alias");
    std::ofstream(root_ / "pythons/bin/python3") << "";
  }
  ~AdmissionTest() override { fs::remove_all(root_); }

  Config Configured(std::string_view text = "") const {
    Config config = ParseConfig(text, "t").value();
    config.allow.mounts = {root_ / "data"};
    config.allow.pythons = {root_ / "pythons"};
    return config;
  }

  // The body with ROOT in place.
  Answer<SessionSpec> Ask(std::string body, const Config& config, std::string_view client = "default") const {
    for (size_t at = body.find("ROOT"); at != std::string::npos; at = body.find("ROOT")) {
      body.replace(at, 4, root_.native());
    }
    auto document = ParsePolicy(body);
    if (!document) return std::unexpected(std::move(document.error()));
    return Admit(*document, config, client);
  }

  fs::path root_;
};

TEST_F(AdmissionTest, EmptyDocumentGetsTheDefaults) {
  auto spec = Ask("{}", Configured(R"(
[policy]
env = { A = "1" }
checkpoint = "off"
python = "3.11"
[policy.limits]
memory = "64m"
[maxima]
cpus = 2
[sessions]
preload = ["numpy"]
idle_timeout = "3m")"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->executor, ExecutorKind::kSandbox);
  EXPECT_EQ(spec->policy.network, Network::kNone);
  EXPECT_EQ(spec->policy.limits.memory.value, 64u << 20);
  EXPECT_FALSE(spec->policy.limits.pids.asked);
  EXPECT_EQ(spec->policy.limits.cpus, 2.0) << "no share named is the largest, not all";
  EXPECT_EQ(spec->policy.python, "3.11");
  EXPECT_EQ(spec->checkpoint, CheckpointMode::kOff);
  EXPECT_EQ(spec->idle_timeout, 3min);
  EXPECT_EQ(spec->max_lifetime, 24h);
  EXPECT_THAT(spec->preload, ElementsAre("numpy"));
  EXPECT_THAT(spec->policy.env, ElementsAre(Pair("A", "1")));
}

TEST_F(AdmissionTest, DocumentOverridesTheDefaults) {
  auto spec = Ask(R"({"limits": {"memory": "128m"}, "env": {"A": "2", "B": "3"}, "preload": [], "best_effort": true,
                      "name": "n", "labels": {"k": "v"}, "max_lifetime": "1h"})",
                  Configured("[policy]\nenv = { A = \"1\" }\n[sessions]\npreload = [\"numpy\"]"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->policy.limits.memory.value, 128u << 20);
  EXPECT_TRUE(spec->policy.limits.memory.asked);
  EXPECT_THAT(spec->policy.env, ElementsAre(Pair("A", "2"), Pair("B", "3")));
  EXPECT_TRUE(spec->preload.empty());
  EXPECT_TRUE(spec->policy.best_effort);
  EXPECT_EQ(spec->name, "n");
  EXPECT_THAT(spec->labels, ElementsAre(Pair("k", "v")));
  EXPECT_EQ(spec->max_lifetime, 1h);
}

// Nothing that a client asked for may be lost on the way.
TEST_F(AdmissionTest, EveryGivenKeyArrives) {
  Config config = Configured("[allow]\nwhole_machine = true\nnetwork_host = true\nruntime_deps = true");
  config.allow.executors.clear();
  for (const ExecutorRow& row : kExecutors) config.allow.executors.push_back(row.kind);
  for (const policy::Key& key : policy::Keys()) {
    if (key.ask == policy::Ask::kNever) continue;
    policy::Request request;
    request.spec.executor = policy::ExecutorOf(key);
    request.given.Add(*policy::Find("executor"));
    ASSERT_TRUE(policy::Set(key, policy::SampleOf(key), &request.spec)) << key.name;
    request.given.Add(key);
    auto spec = Admit(request, config, "default");
    ASSERT_TRUE(spec) << key.name << ": " << spec.error().message;
    const bool needs_permission = key.name == "allow_runtime_deps";
    EXPECT_EQ(policy::ExactOf(key, *spec), policy::ExactOf(key, request.spec)) << key.name;
    EXPECT_TRUE(needs_permission || policy::ExactOf(key, *spec) != policy::ExactOf(key, config.defaults)) << key.name;
  }
}

TEST_F(AdmissionTest, EnvironmentsOfPackagesNeedPermissionAndHaveTheirOwnPython) {
  const std::string packages = R"({"environment": {"packages": ["six"]}})";
  EXPECT_EQ(Ask(packages, Configured()).error().status, 403);
  const Config config = Configured("[allow]\nenvironments = true\n[policy]\npython = \"3.12\"");
  auto spec = Ask(packages, config);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->environment.python, "3.12");
  EXPECT_EQ(spec->policy.python, "");
  auto named = Ask(R"({"environment": "tools"})", Configured());
  ASSERT_TRUE(named) << "one that is there needs no permission";
  EXPECT_EQ(named->environment.name, "tools");
  EXPECT_EQ(Ask(R"({"environment": {"packages": ["six"], "python": "/tmp/python"}})", config).error().status, 403);
  EXPECT_EQ(Ask(R"({"environment": {"packages": ["six"], "python": "python"}})", config).error().status, 400);
  for (const char* other : {R"("python": "3.11")", R"("venv": "ROOT/data")", R"("rootfs": "ROOT/data")"}) {
    auto both = Ask(fmt::format(R"({{"environment": "tools", {}}})", other), config);
    ASSERT_FALSE(both) << other;
    EXPECT_EQ(both.error().status, 400) << other;
  }
}

TEST_F(AdmissionTest, RejectsKeysWithoutMeaningForTheExecutor) {
  Config config = Configured("[allow]\nexecutors = [\"sandbox\", \"local\", \"subprocess\"]");
  for (const char* body :
       {R"({"executor": "local", "rootfs": "/"})", R"({"executor": "local", "mounts": []})", R"({"kernel": "ir"})",
        R"({"jail": false})", R"({"startup_timeout": "3s"})", R"({"executor": "subprocess", "checkpoint": "off"})"}) {
    auto spec = Ask(body, config);
    ASSERT_FALSE(spec) << body;
    EXPECT_EQ(spec.error().status, 400) << body << ": " << spec.error().message;
  }
  EXPECT_TRUE(Ask(R"({"executor": "subprocess", "jail": true, "network": "none"})", config));
  EXPECT_FALSE(Ask(R"({"executor": "subprocess", "network": "none"})", config));
}

TEST_F(AdmissionTest, AllowsKernelsOnlyInJailWhereOperatorSaysSo) {
  const Config config = Configured("[allow]\njailed_kernels = true");
  EXPECT_TRUE(Ask(R"({"executor": "subprocess", "jail": true})", config));
  EXPECT_EQ(Ask(R"({"executor": "subprocess", "jail": true})", Configured()).error().status, 403);
  for (const char* body :
       {R"({"executor": "subprocess"})", R"({"executor": "subprocess", "jail": false})", R"({"executor": "local"})"}) {
    auto spec = Ask(body, config);
    ASSERT_FALSE(spec) << body;
    EXPECT_EQ(spec.error().status, 403) << body << ": " << spec.error().message;
  }
  EXPECT_EQ(Ask(R"({"executor": "subprocess"})", config).error().message,
            "executor: this server does not allow 'subprocess' without 'jail: true'");
}

TEST_F(AdmissionTest, RejectsDisallowedKeysByName) {
  const Config config = Configured();
  for (const auto& [body, key] : std::vector<std::pair<std::string, std::string>>{
           {R"({"executor": "local"})", "executor:"},
           {R"({"network": "host"})", "network:"},
           {R"({"limits": {"memory": "5g"}})", "limits.memory:"},
           {R"({"limits": {"pids": 1025}})", "limits.pids:"},
           {R"({"limits": {"disk": "5g"}})", "limits.disk:"},
           {R"({"limits": {"timeout": "61m"}})", "limits.timeout:"},
           {R"({"limits": {"cpu_time": "61m"}})", "limits.cpu_time:"},
           {R"({"limits": {"output": "17m"}})", "limits.output:"},
           {R"({"limits": {"open_files": 65537}})", "limits.open_files:"},
           {R"({"idle_timeout": "25h"})", "idle_timeout:"},
           {R"({"max_lifetime": "8d"})", "max_lifetime:"},
           {R"({"workdir": "ROOT/secret"})", "workdir:"},
           {R"({"workdir": "/"})", "workdir:"},
           {R"({"workdir": "ROOT/data/../secret"})", "workdir:"},
           {R"({"workdir": "ROOT/data-other"})", "workdir:"},
           {R"({"workdir": "ROOT"})", "workdir:"},
           {R"({"rootfs": "/usr"})", "rootfs:"},
           {R"({"venv": "ROOT/secret"})", "venv:"},
           {R"({"mounts": [{"source": "/etc", "target": "/etc"}]})", "mounts[0].source:"},
           {R"({"mounts": [{"source": "ROOT/data", "target": "/a"}, {"source": "/proc/self/root", "target": "/b"}]})",
            "mounts[1].source:"},
           {R"({"python": "/usr/bin/python3"})", "python:"},
           {R"({"python": "ROOT/data/bin/python3"})", "python:"},
           {R"({"python": "ROOT/pythons/../data/python3"})", "python:"}}) {
    auto spec = Ask(body, config);
    ASSERT_FALSE(spec) << body;
    EXPECT_EQ(spec.error().status, 403) << body << ": " << spec.error().message;
    EXPECT_THAT(spec.error().message, ::testing::StartsWith(key)) << body;
  }
  EXPECT_EQ(Ask(R"({"limits": {"cpus": 3}})", Configured("[maxima]\ncpus = 2")).error().status, 403);
}

TEST_F(AdmissionTest, AllowsLimitsUpToTheMaximum) {
  EXPECT_TRUE(Ask(R"({"limits": {"memory": "4g", "pids": 1024, "timeout": "1h", "cpus": 64}, "idle_timeout": "24h"})",
                  Configured()));
}

TEST_F(AdmissionTest, AllowedPathsBecomeRealPaths) {
  auto spec = Ask(R"({"workdir": "ROOT/alias/set", "rootfs": "ROOT/data/./set/../set/",
                      "mounts": [{"source": "ROOT/data", "target": "/data", "mode": "rw"}]})",
                  Configured());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->policy.workdir, root_ / "data/set") << "a link of the operator's, outside, is followed";
  EXPECT_EQ(spec->policy.rootfs, root_ / "data/set");
  EXPECT_EQ(spec->policy.mounts.at(0).source, root_ / "data");
}

TEST_F(AdmissionTest, AllowedDirectoryMayBeALink) {
  Config config = Configured();
  config.allow.mounts = {root_ / "alias"};
  EXPECT_TRUE(Ask(R"({"workdir": "ROOT/alias/set"})", config));
  EXPECT_TRUE(Ask(R"({"workdir": "ROOT/data/set"})", config));
}

TEST_F(AdmissionTest, RejectsLinkThatAGuestMayHaveMade) {
  // Outside of the server the way is open.
  ASSERT_EQ(fs::canonical(root_ / "data/planted"), root_ / "secret");
  auto spec = Ask(R"({"workdir": "ROOT/data/planted"})", Configured());
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message, HasSubstr("symbolic link"));
}

TEST_F(AdmissionTest, WholeMachineAllowsWhatTheUserCanUse) {
  Config config;
  config.allow.whole_machine = true;
  auto spec = Ask(R"({"workdir": "ROOT/alias", "python": "ROOT/pythons/bin/python3"})", config);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->policy.workdir, root_ / "data");
  EXPECT_EQ(spec->policy.python, root_ / "pythons/bin/python3");
  EXPECT_EQ(Ask(R"({"workdir": "ROOT/nothing"})", config).error().status, 400);
}

TEST_F(AdmissionTest, ErrorsDoNotRevealWhetherOtherPathsExist) {
  auto there = Ask(R"({"workdir": "ROOT/secret"})", Configured());
  auto not_there = Ask(R"({"workdir": "ROOT/secres"})", Configured());
  ASSERT_FALSE(there || not_there);
  EXPECT_EQ(there.error().status, not_there.error().status);
  EXPECT_EQ(there.error().message.substr(0, 40), not_there.error().message.substr(0, 40));
  auto missing = Ask(R"({"workdir": "ROOT/data/none"})", Configured());
  EXPECT_EQ(missing.error().status, 400) << "in an allowed directory it may be told";
}

TEST_F(AdmissionTest, AcceptsPythonVersionOrAllowedInterpreter) {
  const Config config = Configured("[policy]\nvenv = \"/opt/v\"");
  auto version = Ask(R"({"python": "3.12"})", config);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->policy.python, "3.12");
  EXPECT_EQ(version->policy.venv, "") << "the default environment has its own interpreter";
  auto path = Ask(R"({"python": "ROOT/pythons/bin/python3"})", config);
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(path->policy.python, root_ / "pythons/bin/python3");
  auto venv = Ask(R"({"venv": "ROOT/data/set"})", Configured("[policy]\npython = \"3.12\""));
  ASSERT_TRUE(venv) << venv.error().message;
  EXPECT_EQ(venv->policy.python, "");
  // The server would run it to ask for its version.
  for (const char* body : {R"({"python": "bash"})", R"({"python": "pypy3"})", R"({"python": "./python"})",
                           R"({"python": "ROOT/pythons/bin/python3", "venv": "ROOT/data/set"})"}) {
    auto spec = Ask(body, config);
    ASSERT_FALSE(spec) << body;
    EXPECT_EQ(spec.error().status, 400) << body;
  }
}

TEST_F(AdmissionTest, RejectsInterpreterInDirectoriesWritableByGuests) {
  std::ofstream(root_ / "data/fake") << "";
  fs::create_symlink(root_ / "data/fake", root_ / "pythons/bin/fake");
  EXPECT_EQ(Ask(R"({"python": "ROOT/pythons/bin/fake"})", Configured()).error().status, 403);
}

TEST_F(AdmissionTest, LocalExecutorUsesTheHostsNetwork) {
  const Config config = Configured("[allow]\nexecutors = [\"sandbox\", \"local\"]");
  auto spec = Ask(R"({"executor": "local"})", config);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->policy.network, Network::kHost);
  auto none = Ask(R"({"executor": "local", "network": "none"})", config);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().status, 400);
}

TEST_F(AdmissionTest, RequestLargerThanTheQuotaIsForbiddenNotRetryable) {
  const Config config = Configured("[quota.small]\nmemory = \"512m\"");
  EXPECT_EQ(Ask("{}", config, "small").error().status, 403);
  EXPECT_TRUE(Ask(R"({"limits": {"memory": "512m"}})", config, "small"));
  EXPECT_TRUE(Ask("{}", config, "other"));
}

}  // namespace
}  // namespace cella::server
