#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "server/config_keys.h"
#include "server/config_reader.h"
#include "server/config_render.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

std::string Refusal(std::string_view text) {
  auto config = ParseConfig(text, "cella.toml");
  return config ? "accepted" : config.error().message;
}

TEST(ConfigReaderTest, EmptyFileGivesTheDefaults) {
  auto config = ParseConfig("", "t");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(RenderConfig(*config), RenderConfig(Config()));
  EXPECT_THAT(config->allow.executors, ElementsAre(ExecutorKind::kSandbox));
  EXPECT_TRUE(config->allow.mounts.empty());
  EXPECT_FALSE(config->allow.network_host);
  EXPECT_TRUE(config->containers.images.empty());
  EXPECT_FALSE(config->containers.pull);
  EXPECT_FALSE(config->containers.bridge);
  EXPECT_TRUE(config->containers.runtimes.empty());
}

constexpr std::string_view kEverything = R"(
[server]
listen = ["unix:/run/x.sock", "127.0.0.1:0"]
state_dir = "/var/lib/x"
runtime_dir = "/run/x"
tls_certificate = "/etc/x/cert.pem"
tls_key = "/etc/x/key.pem"
token_file = "/etc/x/tokens"
no_auth = false
insecure_http = true
allowed_origins = ["https://app.example"]
allowed_hosts = ["box.example"]
max_body = "10m"
max_connections = 7
drain_grace = "1500ms"
[sessions]
max_sessions = 8
max_queued_runs = 9
idle_timeout = 90
max_lifetime = "2h"
prestart = false
pool_shells = 0
pool_parked = 3
preload = ["numpy", "os.path"]
[policy]
executor = "local"
python = "3.12"
venv = "/opt/v"
rootfs = "/opt/r"
network = "host"
env = { B = "2", A = "1" }
checkpoint = "always"
best_effort = true
[policy.limits]
timeout = 2.5
cpu_time = "3s"
memory = "256m"
cpus = 1.5
pids = 11
disk = 1048576
open_files = 99
output = "2k"
calls = 13
calls_at_once = 14
call_size = "3k"
[allow]
executors = ["sandbox", "local"]
jailed_kernels = true
network_host = true
mounts = ["/srv/data"]
pythons = ["/opt/pythons"]
whole_machine = true
runtime_deps = true
environments = true
source_builds = true
packages = ["numpy"]
denied_packages = ["evil"]
[packages]
installers = 2
cache_size = "1g"
[container]
engine = "unix:///run/engine.sock"
image = "an/image:1"
images = ["an/image:2"]
pull = true
bridge = true
runtimes = ["runsc"]
[storage]
directory = "/srv/storages"
max_bytes = "8g"
max_files = 9
max_storages = 10
[maxima]
memory = "2g"
cpus = 2
pids = 12
disk = "3g"
timeout = "4m"
cpu_time = "5m"
output = "6m"
open_files = 100
calls = 101
calls_at_once = 15
call_size = "5k"
idle_timeout = "7m"
max_lifetime = "3d"
startup_timeout = "1m"
[quota]
sessions = 5
concurrent_runs = 6
memory = "7g"
requests_per_second = 0.5
burst = 8
environments = 9
environment_disk = "10g"
builds = 11
interpreters = 12
[quota.alice]
sessions = 50
[retention]
days = 1
runs = 2
event_log_bytes = "3k"
[log]
level = "debug"
format = "json"
)";

TEST(ConfigReaderTest, ReadsEveryKey) {
  auto config = ParseConfig(kEverything, "t");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->server.listen, ElementsAre("unix:/run/x.sock", "127.0.0.1:0"));
  EXPECT_EQ(config->server.max_body, 10u << 20);
  EXPECT_EQ(config->server.drain_grace, 1500ms);
  EXPECT_EQ(config->defaults.idle_timeout, 90s);
  EXPECT_FALSE(config->sessions.prestart);
  EXPECT_TRUE(config->allow.whole_machine);
  EXPECT_EQ(config->defaults.policy.container.engine, "unix:///run/engine.sock");
  EXPECT_EQ(config->defaults.policy.container.image, "an/image:1");
  EXPECT_THAT(config->containers.images, ElementsAre("an/image:2"));
  EXPECT_TRUE(config->containers.pull);
  EXPECT_TRUE(config->containers.bridge);
  EXPECT_THAT(config->containers.runtimes, ElementsAre("runsc"));
  EXPECT_EQ(config->sessions.pool_shells, 0u);
  EXPECT_EQ(config->defaults.executor, ExecutorKind::kLocal);
  EXPECT_EQ(config->defaults.checkpoint, CheckpointMode::kAlways);
  EXPECT_EQ(config->defaults.policy.network, Network::kHost);
  EXPECT_EQ(config->defaults.policy.limits.timeout.value, 2500ms);
  EXPECT_TRUE(config->defaults.policy.limits.timeout.asked);
  EXPECT_EQ(config->defaults.policy.limits.cpus, 1.5);
  EXPECT_THAT(config->defaults.policy.env, ElementsAre(Pair("A", "1"), Pair("B", "2")));
  EXPECT_EQ(config->maxima.max_lifetime, 72h);
  EXPECT_EQ(config->quota.requests_per_second, 0.5);
  EXPECT_EQ(config->log.level, LogLevel::kDebug);
  // A client's quota is the general one with its own on top.
  EXPECT_EQ(config->QuotaOf("alice").sessions, 50u);
  EXPECT_EQ(config->QuotaOf("alice").burst, 8u);
  EXPECT_EQ(config->QuotaOf("bob").sessions, 5u);
}

TEST(ConfigReaderTest, TestFileMentionsEveryKeyOfTheTable) {
  for (const ConfigKey& key : ConfigKeys()) {
    std::string text(kEverything);
    size_t section = text.find("[" + std::string(key.section) + "]\n");
    ASSERT_NE(section, std::string::npos) << key.section;
    size_t end = text.find("\n[", section + 1);
    EXPECT_NE(text.substr(section, end - section).find("\n" + std::string(key.name) + " = "), std::string::npos)
        << key.section << "." << key.name;
  }
}

TEST(ConfigReaderTest, RenderedConfigRoundTrips) {
  std::string text(kEverything);
  size_t env = text.find("\nenv = ") + 1;
  text.replace(env, text.find('\n', env) - env, "env = {}");
  auto config = ParseConfig(text, "t");
  ASSERT_TRUE(config) << config.error().message;
  std::string printed = RenderConfig(*config);
  auto again = ParseConfig(printed, "printed");
  ASSERT_TRUE(again) << again.error().message << "\n" << printed;
  EXPECT_EQ(RenderConfig(*again), printed);
  EXPECT_EQ(again->client_quotas, config->client_quotas);
  EXPECT_EQ(again->defaults.policy.limits.memory.value, config->defaults.policy.limits.memory.value);
}

TEST(ConfigReaderTest, VariablesOfThePolicyAreNotPrinted) {
  auto config = ParseConfig("[policy]\nenv = { KEY = \"hunter2\" }", "t");
  ASSERT_TRUE(config);
  EXPECT_THAT(RenderConfig(*config), HasSubstr("env = { KEY = \"…\" }"));
  EXPECT_THAT(RenderConfig(*config), Not(HasSubstr("hunter2")));
}

TEST(ConfigReaderTest, DefaultLimitIsNotMarkedAsRequested) {
  auto again = ParseConfig(RenderConfig(Config()), "t");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->defaults.policy.limits.memory.asked);
}

TEST(ConfigReaderTest, ErrorsNamePositionAndReason) {
  const struct {
    std::string_view text, message;
  } kCases[] = {
      {"[server]\nlisten = 5", "cella.toml:2:10: server.listen: must be a list of texts"},
      {"[server]\nlisten = [\"x\"]", "cella.toml:2:10: server.listen: 'x' has no port"},
      {"[server]\nmax_bdy = 5", "cella.toml:2:1: unknown key 'max_bdy'; did you mean 'max_body'?"},
      {"[sever]\n", "cella.toml:1:2: unknown key 'sever'; did you mean 'server'?"},
      {"zebra = 1",
       "unknown key 'zebra'; known are server, sessions, policy, allow, packages, container, storage, maxima, quota, "
       "retention, log"},
      {"server = 1", "cella.toml:1:10: 'server' is a section"},
      {"[policy]\nlimits = 1", "'limits' is a section: write [policy.limits]"},
      {"[policy]\nlimit.memory = 1", "unknown key 'limit'; did you mean 'limits'?"},
      {"[policy.limits]\nmemroy = 1", "unknown key 'memroy'; did you mean 'memory'?"},
      {"[policy.limits]\nmemory = \"5q\"", "policy.limits.memory: '5q' is not a size: unknown unit 'q'"},
      {"[policy.limits]\nmemory = true", "policy.limits.memory: must be a size: a number of bytes, or text"},
      {"[policy.limits]\ntimeout = 0", "policy.limits.timeout: '0' is not a duration"},
      {"[policy.limits]\npids = 1.5", "policy.limits.pids: '1.5' is not a count"},
      {"[policy]\nnetwork = \"hots\"", "policy.network: 'hots' is none of none, host"},
      {"[policy]\nexecutor = [\"local\"]", "policy.executor: must be text"},
      {"[policy]\nenv = { \"A-B\" = \"x\" }", "policy.env: 'A-B' is not the name of a variable"},
      {"[policy]\nenv = { A = 1 }", "policy.env: the value of 'A' must be text"},
      {"[policy]\nvenv = \"venv\"", "policy.venv: 'venv' must be an absolute path"},
      {"[policy]\npython = \"3\\u0000\"", "policy.python: contains a NUL byte"},
      {"[allow]\nexecutors = [\"sandbox\", \"docker\"]",
       "allow.executors: 'sandbox, docker' is none of sandbox, local, container, subprocess, inprocess"},
      {"[allow]\nmounts = [\"data\"]", "allow.mounts: 'data' must be an absolute path"},
      {"[allow]\nnetwork_host = \"yes\"", "allow.network_host: must be true or false"},
      {"[sessions]\npreload = [\"a;b\"]", "sessions.preload: 'a;b' is not the name of a Python module"},
      {"[quota.alice]\nsesions = 1", "cella.toml:2:1: unknown key 'sesions'; did you mean 'sessions'?"},
      {"[quota.\"a b\"]\n", "a client's name has letters"},
      {"[quota]\nrequests_per_second = 0", "quota.requests_per_second: '0' is not a rate"},
      {"[log]\nlevel = \"loud\"", "log.level: 'loud' is none of error, warning, info, debug"},
      {"[server\n", "cella.toml:1:8: "},
      {"[server]\n[server]\n", "cella.toml:2:"},
      {"a = \"\xff\"", "cella.toml:1:"},
  };
  for (const auto& [text, message] : kCases) EXPECT_THAT(Refusal(text), HasSubstr(message)) << text;
}

TEST(ConfigReaderTest, MissingFileIsNamed) {
  auto config = ReadConfig("/nonexistent/cella.toml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/cella.toml"));
}

TEST(ConfigTest, UnsetPathsGetDefaultsForRootAndUsers) {
  Config root;
  CompleteConfig({.uid = 0, .home = "/root", .xdg_state_home = "/root/s", .xdg_runtime_dir = "/run/user/0"}, &root);
  EXPECT_EQ(root.server.state_dir, "/var/lib/cella");
  EXPECT_THAT(root.server.listen, ElementsAre("unix:/run/cella/cella.sock"));
  EXPECT_EQ(root.server.token_file, "/var/lib/cella/tokens");

  Config user;
  CompleteConfig({.uid = 5, .home = "/home/a", .xdg_state_home = "", .xdg_runtime_dir = "/run/user/5"}, &user);
  EXPECT_EQ(user.server.state_dir, "/home/a/.local/state/cella");
  EXPECT_THAT(user.server.listen, ElementsAre("unix:/run/user/5/cella/cella.sock"));

  Config bare;
  bare.server.state_dir = "/s";
  bare.server.no_auth = true;
  CompleteConfig({.uid = 5, .home = "/home/a", .xdg_state_home = "", .xdg_runtime_dir = "run"}, &bare);
  EXPECT_THAT(bare.server.listen, ElementsAre("unix:/s/run/cella.sock"));
  EXPECT_EQ(bare.server.token_file, "");
}

TEST(ConfigTest, CommandLineOverridesTheFile) {
  Config config = ParseConfig("[server]\nlisten = [\"unix:/a\"]\ntoken_file = \"/t\"\nstate_dir = \"/s\"", "t").value();
  ConfigOverrides overrides;
  overrides.listen = {"unix:x.sock", "127.0.0.1:1"};
  overrides.state_dir = "../b";
  overrides.directory = "/home/a";
  overrides.log_level = "error";
  ASSERT_TRUE(ApplyOverrides(overrides, &config));
  EXPECT_THAT(config.server.listen, ElementsAre("unix:/home/a/x.sock", "127.0.0.1:1"));
  EXPECT_EQ(config.server.state_dir, "/home/b");
  EXPECT_EQ(config.server.token_file, "/t");
  EXPECT_EQ(config.log.level, LogLevel::kError);

  overrides = {};
  overrides.no_auth = true;
  ASSERT_TRUE(ApplyOverrides(overrides, &config));
  EXPECT_TRUE(config.server.no_auth);
  EXPECT_EQ(config.server.token_file, "");
  overrides = {};
  overrides.token_file = "/u";
  ASSERT_TRUE(ApplyOverrides(overrides, &config));
  EXPECT_FALSE(config.server.no_auth);
  overrides.no_auth = true;
  EXPECT_FALSE(ApplyOverrides(overrides, &config)) << "both at once";
}

std::string Check(std::string_view text) {
  auto config = ParseConfig(text, "t");
  if (!config) return "unreadable: " + config.error().message;
  CompleteConfig({.uid = 0, .home = "/root", .xdg_state_home = "", .xdg_runtime_dir = ""}, &*config);
  Status checked = CheckConfig(*config);
  return checked ? "ok" : checked.error().message;
}

TEST(ConfigTest, RejectsContradictoryOrInsecureConfiguration) {
  const struct {
    std::string_view text, message;
  } kCases[] = {
      {"", "ok"},
      {kEverything, "need not be the server's user"},
      {"[allow]\nwhole_machine = true", "ok"},
      {"[server]\nlisten = [\"127.0.0.1:80\"]\n[allow]\nwhole_machine = true", "need not be the server's user"},
      {"[policy]\nvenv = \"/v\"\npython = \"3.12\"", "policy.venv has its own interpreter"},
      {"[server]\nlisten = [\"0.0.0.0:80\"]", "without TLS the tokens"},
      {"[server]\nlisten = [\"[::]:80\"]", "--insecure-http"},
      {"[server]\nlisten = [\"0.0.0.0:80\"]\ninsecure_http = true", "ok"},
      {"[server]\nlisten = [\"0.0.0.0:80\"]\ntls_certificate = \"/c\"\ntls_key = \"/k\"", "ok"},
      {"[server]\nlisten = [\"127.0.0.1:80\", \"[::1]:80\", \"localhost:80\"]", "ok"},
      {"[server]\nlisten = [\"0.0.0.0:80\"]\nno_auth = true", "'0.0.0.0:80' can be reached from other machines"},
      {"[server]\nlisten = [\"[::]:80\"]\nno_auth = true", "can be reached from other machines"},
      {"[server]\nlisten = [\"127.0.0.1:80\", \"[::1]:80\", \"localhost:80\"]\nno_auth = true", "ok"},
      {"[server]\nno_auth = true\ntoken_file = \"/t\"", "contradict each other"},
      {"[server]\ntls_key = \"/k\"", "belong together"},
      {"[server]\nallowed_origins = [\"app.example\"]", "is not an origin"},
      {"[server]\nallowed_origins = [\"*\"]", "ok"},
      {"[server]\nallowed_origins = [\"*\"]\nno_auth = true", "every web page"},
      {"[server]\nallowed_hosts = [\"a b\"]", "is not a host name"},
      {"[allow]\nmounts = [\"/srv/cella-data\"]", "ok"},
      {"[allow]\nmounts = [\"/srv/../\"]", "would allow the whole machine"},
      {"[allow]\nmounts = [\"/var/lib\"]", "contains server.state_dir"},
      {"[allow]\nmounts = [\"/etc/x\"]\n[server]\ntoken_file = \"/etc/x/tokens\"", "contains server.token_file"},
      {"[allow]\nmounts = [\"/srv/x\"]\n[server]\nlisten = [\"unix:/srv/x/s\"]", "contains server.listen"},
      {"[allow]\nmounts = [\"/srv/x\"]\npythons = [\"/srv/x/bin\"]", "overlap"},
      {"[allow]\nmounts = [\"/srv/x/y\"]\npythons = [\"/srv/x\"]", "overlap"},
      {"[policy]\nexecutor = \"local\"", "which allow.executors does not list"},
      {"[policy]\nnetwork = \"host\"", "set allow.network_host"},
      {"[policy.limits]\nmemory = \"8g\"", "policy.limits.memory is 8g, more than the 4g of maxima.memory"},
      {"[policy.limits]\nmemory = \"8g\"\n[maxima]\nmemory = \"8g\"", "ok"},
      {"[policy.limits]\nmemory = \"1k\"", "policy.limits.memory: at least 1m"},
      {"[policy.limits]\ncpus = 4\n[maxima]\ncpus = 2", "policy.limits.cpus is 4, more than the 2 of maxima.cpus"},
      {"[sessions]\nidle_timeout = \"2d\"", "sessions.idle_timeout is"},
      {"[quota]\nburst = 5", "means nothing without"},
      {"[quota.bob]\nburst = 5", "quota.bob.burst means nothing without"},
  };
  for (const auto& [text, message] : kCases) EXPECT_THAT(Check(text), HasSubstr(message)) << text;
}

TEST(ConfigTest, RejectsAllowedLinkToTheStateDirectory) {
  std::filesystem::path dir = std::filesystem::temp_directory_path() / fmt::format("cella_config_{}", getpid());
  std::filesystem::create_directories(dir / "state");
  std::filesystem::create_directory_symlink(dir / "state", dir / "link");
  Config config;
  config.server.state_dir = dir / "state/inner";
  std::filesystem::create_directory(config.server.state_dir);
  config.allow.mounts = {dir / "link"};
  Status checked = CheckConfig(config);
  EXPECT_FALSE(checked);
  std::filesystem::remove_all(dir);
}

TEST(ConfigKeysTest, KeysAreUniqueAndDocumented) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  std::set<std::string_view> sections;
  for (const ConfigSection& section : ConfigSections()) sections.insert(section.name);
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_TRUE(seen.emplace(key.section, key.name).second) << key.section << "." << key.name;
    EXPECT_TRUE(sections.contains(key.section)) << key.section;
    EXPECT_TRUE(key.help.ends_with('.')) << key.section << "." << key.name;
  }
}

// CELLA_UPDATE_DOCS=1 writes the page anew.
TEST(ConfigKeysTest, DocumentationPageMatchesTheTable) {
  std::ifstream file(CELLA_CONFIGURATION_MD);
  std::stringstream content;
  content << file.rdbuf();
  std::string page = content.str();
  constexpr std::string_view kBegin = "<!-- keys: from src/server/config_keys.cc -->\n\n";
  constexpr std::string_view kEnd = "<!-- end of keys -->";
  size_t begin = page.find(kBegin);
  size_t end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end);
  begin += kBegin.size();
  std::string wanted = RenderKeyReference();
  if (std::getenv("CELLA_UPDATE_DOCS") != nullptr) {
    page.replace(begin, end - begin, wanted);
    std::ofstream(CELLA_CONFIGURATION_MD) << page;
    return;
  }
  EXPECT_EQ(page.substr(begin, end - begin), wanted) << "run server_test with CELLA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace cella::server
