#include "policy/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "policy/describe.h"
#include "policy/key_samples.h"
#include "policy/read.h"

namespace cella::policy {
namespace {

using ::testing::HasSubstr;

// How many members an aggregate has.
struct Anything {
  template <typename T>
  operator T() const {  // NOLINT(google-explicit-constructor): that is its purpose
    std::abort();
  }
};
template <typename T, typename... Members>
consteval size_t MembersOf(Members... members) {
  if constexpr (requires { T{members..., Anything{}}; }) {
    return MembersOf<T>(members..., Anything{});
  } else {
    return sizeof...(members);
  }
}

size_t KeysBelow(std::string_view prefix) {
  return static_cast<size_t>(
      std::ranges::count_if(Keys(), [&](const Key& key) { return key.name.starts_with(prefix); }));
}

// A new field needs a row, or its name here if no person sets it.
TEST(PolicyKeysTest, EveryFieldHasARow) {
  EXPECT_EQ(MembersOf<Limits>(), KeysBelow("limits."));
  EXPECT_EQ(MembersOf<ContainerPolicy>(), KeysBelow("container."));
  // Two of the members hold the keys below their names; the others, and those of SessionSpec, but for policy, are keys
  // themselves.
  EXPECT_EQ(MembersOf<Policy>() - 2 + MembersOf<SessionSpec>() - 1,
            Keys().size() - KeysBelow("limits.") - KeysBelow("container."));
}

TEST(PolicyKeysTest, RowsAreUniqueAndComplete) {
  std::set<std::string_view> names, options, pythons;
  for (const Key& key : Keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_TRUE(key.help.ends_with('.')) << key.name;
    EXPECT_EQ(key.option.empty(), key.commands == Commands::kNone) << key.name;
    EXPECT_TRUE(key.option.empty() || options.insert(key.option).second) << key.name;
    EXPECT_TRUE(key.python.empty() || pythons.insert(key.python).second) << key.name;
    EXPECT_EQ(!key.maximum.empty(), key.ask == Ask::kUpToMaximum) << key.name;
    EXPECT_FALSE(DescribeDefault(key).empty()) << key.name << ": say what no value means";
  }
}

TEST(PolicyKeysTest, EveryKeyIsSetCopiedShownAndCompared) {
  for (const Key& key : Keys()) {
    const SessionSpec defaults;
    SessionSpec spec;
    auto set = Set(key, SampleOf(key), &spec);
    ASSERT_TRUE(set) << key.name << ": " << set.error().Text();
    EXPECT_NE(ExactOf(key, spec), ExactOf(key, defaults)) << key.name;
    EXPECT_NE(Show(key, spec), Show(key, defaults)) << key.name;
    SessionSpec copy;
    Copy(key, spec, &copy);
    for (const Key& each : Keys()) EXPECT_EQ(ExactOf(each, copy), ExactOf(each, spec)) << key.name << ", " << each.name;
    for (const Key& each : Keys()) {
      EXPECT_EQ(ExactOf(each, copy) != ExactOf(each, defaults), &each == &key) << key.name << " changes " << each.name;
    }
  }
}

TEST(PolicyKeysTest, MaximaBoundWhatHasAnAmount) {
  const SessionSpec maxima = DefaultMaxima();
  for (const Key& key : Keys()) {
    EXPECT_FALSE(Exceeds(key, SessionSpec{}, maxima)) << key.name;
    if (key.ask != Ask::kUpToMaximum) continue;
    SessionSpec least, spec;
    ASSERT_TRUE(Set(key,
                    key.maximum == "1m"        ? "1k"
                    : key.kind == Kind::kSize  ? "1m"
                    : key.kind == Kind::kCpus  ? "0.1"
                    : key.kind == Kind::kCount ? "16"
                                               : "1s",
                    &least));
    ASSERT_TRUE(Set(key, SampleOf(key), &spec));
    EXPECT_TRUE(Exceeds(key, spec, least)) << key.name;
  }
}

TEST(PolicyKeysTest, TextsOfOptionsMeanTheSameAsJson) {
  SessionSpec text, json;
  ASSERT_TRUE(SetText(*Find("limits.memory"), "17m", &text));
  ASSERT_TRUE(Set(*Find("limits.memory"), "17m", &json));
  EXPECT_EQ(text.policy.limits.memory.value, json.policy.limits.memory.value);
  ASSERT_TRUE(SetText(*Find("mounts"), "data:/b:rw", &text));
  EXPECT_EQ(text.policy.mounts.at(0).source, "data");
  EXPECT_EQ(text.policy.mounts.at(0).mode, MountMode::kReadWrite);
  ASSERT_TRUE(SetText(*Find("env"), "A=b=c", &text));
  EXPECT_EQ(text.policy.env.at(0).second, "b=c");
  ASSERT_TRUE(SetText(*Find("preload"), "os", &text));
  ASSERT_TRUE(SetText(*Find("preload"), "json", &text));
  EXPECT_THAT(text.preload, ::testing::ElementsAre("os", "json"));
  for (auto [name, value] : {std::pair{"mounts", "data"},
                             {"mounts", ":/b"},
                             {"mounts", "a:/b:w"},
                             {"env", "=b"},
                             {"env", "A"},
                             {"workdir", ""},
                             {"limits.memory", ""},
                             {"network", "internet"}}) {
    EXPECT_FALSE(SetText(*Find(name), value, &text)) << name << " " << value;
  }
}

TEST(PolicyKeysTest, KeysWithoutMeaningForTheExecutorAreFound) {
  KeySet given;
  given.Add(*Find("limits.memory"));
  EXPECT_EQ(FindMeaningless(given, ExecutorKind::kLocal), nullptr);
  given.Add(*Find("rootfs"));
  EXPECT_EQ(FindMeaningless(given, ExecutorKind::kLocal), Find("rootfs"));
  EXPECT_EQ(FindMeaningless(given, ExecutorKind::kSandbox), nullptr);
  EXPECT_EQ(NamesOf(Find("mounts")->executors), "sandbox, container, subprocess");
}

TEST(PolicyKeysTest, SchemaHasTypesAndBounds) {
  const auto schema = DescribeDocument(DefaultMaxima());
  const auto& limits = schema["properties"]["limits"]["properties"];
  EXPECT_EQ(limits["memory"]["minimum"], 1 << 20);
  EXPECT_EQ(limits["memory"]["maximum"], uint64_t{4} << 30);
  EXPECT_EQ(limits["timeout"]["maximum"], 3600.0);
  EXPECT_FALSE(limits["cpus"].contains("maximum"));
  EXPECT_EQ(schema["properties"]["network"]["enum"], nlohmann::json({"none", "host", "bridge"}));
  EXPECT_FALSE(schema["properties"].contains("inherit_env"));
}

std::string ReadDoc(const std::string& name) {
  std::ifstream file(CELLA_DOCS "/" + name);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// CELLA_UPDATE_DOCS=1 writes the file anew.
TEST(PolicyKeysTest, GeneratedFileMatchesTheTable) {
  const std::string wanted = DescribeKeys().dump(1) + "\n";
  if (std::getenv("CELLA_UPDATE_DOCS") != nullptr) {
    std::ofstream(CELLA_DOCS "/policy-keys.json") << wanted;
    return;
  }
  EXPECT_TRUE(ReadDoc("policy-keys.json") == wanted) << "run policy_test with CELLA_UPDATE_DOCS=1";
}

TEST(PolicyKeysTest, GuidesNameEveryKey) {
  const std::string run = ReadDoc("run.md") + ReadDoc("container.md") + ReadDoc("kernels.md"),
                    python = ReadDoc("python.md");
  for (const Key& key : Keys()) {
    if (key.commands == Commands::kAll) {
      const std::string option(key.option.substr(key.option.rfind(',') + 1));
      EXPECT_THAT(run, HasSubstr(option)) << "docs/run.md";
      if (key.section == "policy.limits") {
        EXPECT_THAT(run, HasSubstr(fmt::format("| `{}` | {}", option, DescribeDefault(key)))) << "docs/run.md";
      }
    }
    if (!key.python.empty()) EXPECT_THAT(python, HasSubstr(fmt::format("`{}`", key.python))) << "docs/python.md";
  }
}

TEST(PolicyKeysTest, EnvironmentIsANameOrWhatOneIsMadeFrom) {
  const Key& key = *Find("environment");
  SessionSpec spec;
  ASSERT_TRUE(Set(key, "tools", &spec));
  EXPECT_EQ(spec.environment.name, "tools");
  ASSERT_TRUE(Set(key, {{"packages", {"numpy>=2", "six"}}}, &spec));
  EXPECT_EQ(spec.environment.name, "");
  EXPECT_THAT(spec.environment.packages, ::testing::ElementsAre("numpy>=2", "six"));
  for (const nlohmann::json& bad :
       {nlohmann::json(""), nlohmann::json("../x"), nlohmann::json("a b"), nlohmann::json(7), nlohmann::json::array(),
        nlohmann::json::object(), nlohmann::json{{"index", "x"}}, nlohmann::json{{"packages", "six"}},
        nlohmann::json{{"packages", {"--index-url=x"}}}, nlohmann::json{{"packages", {1}}},
        nlohmann::json{{"preload", {"a b"}}}, nlohmann::json{{"python", 3}}}) {
    EXPECT_FALSE(Set(key, bad, &spec)) << bad;
  }
}

TEST(PolicyKeysTest, UnlimitedMaximaBoundNoKeyAndDefaultMaximaBoundEach) {
  const SessionSpec unlimited = UnlimitedMaxima();
  for (const Key& key : Keys()) {
    if (key.ask != Ask::kUpToMaximum) continue;
    EXPECT_FALSE(Exceeds(key, DefaultMaxima(), unlimited)) << key.name;
    if (key.maximum != "none") EXPECT_TRUE(Exceeds(key, unlimited, DefaultMaxima())) << key.name;
  }
}

TEST(PolicyKeysTest, OnlyALimitThatWasSetIsAsked) {
  for (const Key& key : Keys()) {
    if (!key.name.starts_with("limits.")) continue;
    SessionSpec spec;
    EXPECT_FALSE(IsAsked(key, spec)) << key.name;
    ASSERT_TRUE(Set(key, SampleOf(key), &spec)) << key.name;
    EXPECT_TRUE(IsAsked(key, spec)) << key.name;
  }
}

TEST(PolicyKeysTest, KeysTellWhatAnExecutorTakes) {
  EXPECT_TRUE(Takes(ExecutorKind::kSubprocess, "kernel"));
  EXPECT_FALSE(Takes(ExecutorKind::kSandbox, "kernel"));
  EXPECT_FALSE(Takes(ExecutorKind::kSandbox, "no such key"));
  SessionSpec spec;
  EXPECT_TRUE(TakesPackages(spec));
  spec.policy.rootfs = "/srv/root";
  EXPECT_FALSE(TakesPackages(spec));
  SessionSpec container;
  container.executor = ExecutorKind::kContainer;
  EXPECT_TRUE(TakesPackages(container));
  container.policy.container.mode = ContainerMode::kCommand;
  EXPECT_FALSE(TakesPackages(container));
  for (const ExecutorKind plain : {ExecutorKind::kLocal, ExecutorKind::kSubprocess, ExecutorKind::kInProcess}) {
    SessionSpec one;
    one.executor = plain;
    EXPECT_TRUE(TakesPackages(one)) << RowOf(plain).name;
  }
}

}  // namespace
}  // namespace cella::policy
