#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "policy/read.h"
#include "server/admission.h"
#include "server/json_input.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(PolicyRequestTest, EmptyDocumentSetsNothing) {
  for (const char* body : {"", "{}", " \n", R"({"executor": null, "limits": null, "limits": {"memory": null}})",
                           R"({"limits": {"memory": null}, "mounts": []})"}) {
    auto request = ParsePolicy(body);
    if (std::string_view(body).contains("null, \"limits\"")) {
      EXPECT_FALSE(request) << "the same key twice";
      continue;
    }
    ASSERT_TRUE(request) << body << request.error().message;
    for (const policy::Key& key : policy::Keys())
      EXPECT_EQ(request->given.Has(key), key.name == "mounts" && std::string_view(body).contains("mounts")) << key.name;
    EXPECT_TRUE(request->spec.policy.mounts.empty());
  }
}

TEST(PolicyRequestTest, ReadsEveryKey) {
  auto request = ParsePolicy(R"({
    "executor": "local", "python": "3.12", "preload": ["numpy"], "network": "host", "venv": "/v", "workdir": "/w",
    "rootfs": "/r", "name": "n-1", "labels": {"team": "blau ü", "x": ""}, "max_lifetime": "2h", "idle_timeout": 90,
    "env": {"A": "1", "B": ""}, "mounts": [{"source": "/s", "target": "/t"}, {"source": "/s2", "target": "/t2", "mode": "rw"}],
    "checkpoint": "off", "best_effort": true, "deps": ["numpy>=2"], "allow_runtime_deps": false, "storage": "/data",
    "environment": "tools",
    "kernel": "ir", "jail": true, "system_packages": true, "value_of": "last_expr_or_assign", "startup_timeout": "3s",
    "container": {"image": "an/image:1", "pull": "never", "mode": "command", "fresh": "run", "name": "n", "runtime": "runsc",
                  "engine": "unix:///e", "read_only": false, "bind_dir": "/b", "auth_token": "t",
                  "auth_disabled": true, "user": "1000:1000", "extra_hosts": {"db": "192.0.2.1"},
                  "device_requests": [{"Count": 1}], "cap_add": ["CAP_NET_RAW"], "init_command": "true",
                  "auto_remove": false, "stop_container": false},
    "limits": {"timeout": 1.5, "cpu_time": "2s", "memory": "1g", "cpus": 1.5, "pids": 128, "disk": 1048576, "output": "1m",
               "open_files": "64", "calls": 7, "calls_at_once": 8, "call_size": "9k"}})");
  ASSERT_TRUE(request) << request.error().message;
  for (const policy::Key& key : policy::Keys()) {
    EXPECT_EQ(request->given.Has(key), key.ask != policy::Ask::kNever) << key.name << ": add it to this test";
  }
  const SessionSpec& spec = request->spec;
  EXPECT_EQ(spec.executor, ExecutorKind::kLocal);
  EXPECT_EQ(spec.policy.python, "3.12");
  EXPECT_THAT(spec.preload, ElementsAre("numpy"));
  EXPECT_EQ(spec.policy.network, Network::kHost);
  EXPECT_EQ(spec.policy.venv, "/v");
  EXPECT_EQ(spec.policy.workdir, "/w");
  EXPECT_EQ(spec.policy.rootfs, "/r");
  EXPECT_EQ(spec.name, "n-1");
  EXPECT_THAT(spec.labels, ElementsAre(Pair("team", "blau ü"), Pair("x", "")));
  EXPECT_EQ(spec.max_lifetime, 2h);
  EXPECT_EQ(spec.idle_timeout, 90s);
  EXPECT_THAT(spec.policy.env, ElementsAre(Pair("A", "1"), Pair("B", "")));
  ASSERT_EQ(spec.policy.mounts.size(), 2u);
  EXPECT_EQ(spec.policy.mounts[0].mode, MountMode::kReadOnly);
  EXPECT_EQ(spec.policy.mounts[1].mode, MountMode::kReadWrite);
  EXPECT_EQ(spec.checkpoint, CheckpointMode::kOff);
  EXPECT_TRUE(spec.policy.best_effort);
  EXPECT_THAT(spec.deps, ElementsAre("numpy>=2"));
  EXPECT_FALSE(spec.runtime_deps);
  EXPECT_EQ(spec.policy.kernel, "ir");
  EXPECT_TRUE(spec.policy.jail);
  EXPECT_TRUE(spec.policy.system_packages && spec.policy.values_of_assignments);
  EXPECT_EQ(spec.policy.startup_timeout, 3s);
  const ContainerPolicy& container = spec.policy.container;
  EXPECT_EQ(container.image, "an/image:1");
  EXPECT_EQ(container.mode, ContainerMode::kCommand);
  EXPECT_EQ(container.fresh, ContainerFresh::kRun);
  EXPECT_FALSE(container.pull || container.read_only);
  EXPECT_EQ(container.auth_token, "t");
  const Limits& limits = spec.policy.limits;
  EXPECT_EQ(limits.timeout.value, 1500ms);
  EXPECT_TRUE(limits.timeout.asked);
  EXPECT_EQ(limits.cpu_time.value, 2s);
  EXPECT_EQ(limits.memory.value, 1u << 30);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.pids.value, 128u);
  EXPECT_EQ(limits.disk.value, 1u << 20);
  EXPECT_EQ(limits.output.value, 1u << 20);
  EXPECT_EQ(limits.open_files.value, 64u);
  EXPECT_EQ(limits.calls.value, 7u);
  EXPECT_EQ(limits.calls_at_once.value, 8u);
  EXPECT_EQ(limits.call_size.value, 9u << 10);
}

TEST(PolicyRequestTest, ErrorsNameTheKeyAndItsPosition) {
  const struct {
    std::string_view body, message;
  } kCases[] = {
      {"[]", "not a JSON object"},
      {"{", "not JSON"},
      {"{} x", "not JSON"},
      {"{\"a\": \"\xff\"}", "not JSON"},
      {"{/**/}", "not JSON"},
      {R"({"executr": "sandbox"})", "unknown key 'executr'; did you mean 'executor'?"},
      {R"({"code": "1"})", "unknown key 'code'; known are executor, python"},
      {R"({"limits": {"memry": 1}})", "limits: unknown key 'memry'; did you mean 'memory'?"},
      {R"({"limits": {"memory": "5q"}})", "limits.memory: '5q' is not a size"},
      {R"({"limits": {"memory": 1024}})", "limits.memory: at least 1m is needed"},
      {R"({"limits": {"memory": 18446744073709551615}})", "limits.memory: '18446744073709551615' is not a size"},
      {R"({"limits": {"open_files": 5}})", "limits.open_files: at least 16 are needed"},
      {R"({"limits": {"timeout": 0}})", "limits.timeout: '0' is not a duration"},
      {R"({"limits": {"timeout": -1e-3}})", "limits.timeout: '-0.001' is not a duration"},
      {R"({"limits": {"timeout": 1e400}})", "not JSON"},
      {R"({"limits": {"pids": 1.5}})", "limits.pids: '1.5' is not a count"},
      {R"({"limits": {"pids": true}})", "limits.pids: must be a whole number"},
      {R"({"limits": {"cpus": 0}})", "limits.cpus: '0' is not a number of cpus"},
      {R"({"limits": []})", "limits: must be an object"},
      {R"({"executor": "docker"})", "executor: 'docker' is none of sandbox"},
      {R"({"executor": 1})", "executor: must be text"},
      {R"({"network": "mesh"})", "network: 'mesh' is none of none, host"},
      {R"({"checkpoint": "sometimes"})", "checkpoint: 'sometimes' is none of"},
      {R"({"best_effort": 1})", "best_effort: must be true or false"},
      {R"({"python": ""})", "python: must not be empty"},
      {R"({"python": "3\u0000"})", "python: contains a NUL byte"},
      {R"({"workdir": "data"})", "workdir: 'data' must be an absolute path"},
      {R"({"name": "a/b"})", "name: 'a/b' is not a name"},
      {R"({"labels": {"a b": "x"}})", "labels: 'a b' is not a name"},
      {R"({"labels": {"a": 1}})", "labels: the value of 'a' must be text"},
      {R"({"labels": {"a": "x\ny"}})", "labels: the value of 'a' contains control characters"},
      {R"({"env": {"A=B": "x"}})", "env: 'A=B' is not the name of a variable"},
      {R"({"env": {"A": 1}})", "env: the value of 'A' must be text"},
      {R"({"env": {"A": "\u0000"}})", "env: the value of 'A' contains a NUL byte"},
      {R"({"env": ["A=1"]})", "env: must be an object"},
      {R"({"preload": "numpy"})", "preload: must be a list"},
      {R"({"preload": ["os;x"]})", "preload: 'os;x' is not the name of a Python module"},
      {R"({"mounts": {}})", "mounts: must be a list"},
      {R"({"mounts": [{"source": "/a", "target": "/b"}, {"source": "a", "target": "/b"}]})",
       "mounts[1].source: 'a' must be an absolute path"},
      {R"({"mounts": [{"source": "/a"}]})", "mounts[0]: lacks 'target'"},
      {R"({"mounts": [{"source": "/a", "target": "/b", "mode": "w"}]})", "mounts[0].mode: 'w' is neither ro nor rw"},
      {R"({"mounts": [{"src": "/a", "target": "/b"}]})", "mounts[0]: unknown key 'src'"},
      {R"({"mounts": ["/a:/b"]})", "mounts[0]: must be an object"},
      {R"({"idle_timeout": "soon"})", "idle_timeout: 'soon' is not a duration"},
      {R"({"network": "none", "network": "host"})", "the key 'network' is there twice"},
      {R"({"limits": {"pids": 1, "pids": 2}})", "the key 'pids' is there twice"},
  };
  for (const auto& [body, message] : kCases) {
    auto request = ParsePolicy(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().status, 400);
    EXPECT_THAT(request.error().message, HasSubstr(message)) << body;
  }
}

TEST(PolicyRequestTest, BoundsEveryStoredValue) {
  auto refused = [](const nlohmann::json& request) { return !ReadPolicy(request).has_value(); };
  nlohmann::json many = nlohmann::json::object();
  for (int i = 0; i < 300; ++i) many["K" + std::to_string(i)] = "v";
  EXPECT_TRUE(refused({{"labels", many}}));
  EXPECT_TRUE(refused({{"env", many}}));
  EXPECT_TRUE(refused({{"env", {{"A", std::string(100'000, 'x')}}}}));
  EXPECT_TRUE(refused({{"labels", {{"a", std::string(257, 'x')}}}}));
  EXPECT_FALSE(refused({{"labels", {{"a", std::string(256, 'x')}}}}));
  EXPECT_TRUE(refused({{"name", std::string(65, 'x')}}));
  EXPECT_TRUE(refused({{"workdir", "/" + std::string(5000, 'x')}}));
  EXPECT_TRUE(refused({{"preload", std::vector<std::string>(65, "os")}}));
  EXPECT_TRUE(refused({{"mounts", std::vector<nlohmann::json>(33, {{"source", "/a"}, {"target", "/b"}})}}));
  // A message about a long text stays short.
  auto long_key = ReadPolicy({{std::string(100'000, 'k'), 1}});
  EXPECT_LT(long_key.error().message.size(), 500u);
}

TEST(JsonInputTest, RejectsDeepNesting) {
  std::string deep = R"({"a": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  auto parsed = ParseJsonObject(deep);
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace cella::server
