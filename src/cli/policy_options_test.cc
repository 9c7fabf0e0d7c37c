#include "cli/policy_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "policy/key_samples.h"
#include "policy/read.h"

namespace cella::cli {
namespace {

// The sample as a person types it.
std::string Typed(const policy::Key& key) {
  switch (key.kind) {
    case policy::Kind::kVariables: return "A=1";
    case policy::Kind::kMounts: return "/usr:/b";
    case policy::Kind::kModules: return "numpy";
    case policy::Kind::kHosts: return "a.example:192.0.2.1";
    case policy::Kind::kCapabilities: return "NET_RAW";
    default: {
      const nlohmann::json sample = policy::SampleOf(key);
      return sample.is_string() ? sample.get<std::string>() : sample.dump();
    }
  }
}

Result<ParsedPolicy> Parse(bool sessions, std::vector<std::string> words) {
  CLI::App app;
  TypedKeys typed;
  DeclarePolicyOptions(app, sessions, &typed);
  std::ranges::reverse(words);
  app.parse(words);
  return ParsePolicy(typed);
}

TEST(PolicyOptionsTest, EveryOptionSetsItsKey) {
  for (const policy::Key& key : policy::Keys()) {
    if (key.commands == policy::Commands::kNone) continue;
    std::vector<std::string> words;
    if (key.name != "executor") words = {"--executor", std::string(ToString(policy::ExecutorOf(key)))};
    words.push_back(std::string(key.option.substr(key.option.rfind(',') + 1)));
    if (key.kind != policy::Kind::kSwitch) words.push_back(Typed(key));
    if (key.name == "inherit_env") words[1] = "local";
    auto parsed = Parse(true, words);
    ASSERT_TRUE(parsed) << key.name << ": " << parsed.error().message;
    EXPECT_TRUE(parsed->given.Has(key)) << key.name;
    SessionSpec wanted;
    ASSERT_TRUE(policy::Set(key, policy::SampleOf(key), &wanted)) << key.name;
    EXPECT_EQ(policy::ExactOf(key, parsed->spec), policy::ExactOf(key, wanted)) << key.name;
    if (key.commands == policy::Commands::kSessions) EXPECT_THROW((void)Parse(false, words), CLI::ParseError);
  }
}

TEST(PolicyOptionsTest, RejectsOptionsWithoutMeaningForTheExecutor) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--executor", "local", "--rootfs", "/"},
                                                {"--image", "x"},
                                                {"--jail"},
                                                {"--kernel", "ir"},
                                                {"--inherit-env"},
                                                {"--executor", "subprocess", "--jail", "--inherit-env"},
                                                {"--executor", "local", "--network", "none"},
                                                {"--executor", "subprocess", "--network", "none"},
                                                {"--network", "bridge"}}) {
    EXPECT_FALSE(Parse(false, words)) << words[0] << " " << words.back();
  }
  EXPECT_TRUE(Parse(false, {"--executor", "subprocess", "--jail", "--network", "none"}));
}

TEST(PolicyOptionsTest, EmptyValueIsAWrongCommandLine) {
  for (const policy::Key& key : policy::Keys()) {
    if (key.commands == policy::Commands::kNone || key.kind == policy::Kind::kSwitch) continue;
    const std::string option(key.option.substr(key.option.rfind(',') + 1));
    EXPECT_THROW((void)Parse(true, {option, ""}), CLI::ParseError) << option;
  }
}

TEST(PolicyOptionsTest, ValueThatCannotBeReadIsAWrongCommandLine) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--memory", "much"},
                                                {"--env", "NO_EQUALS_SIGN"},
                                                {"--env", "=value"},
                                                {"--env", "A=1", "--env", "B"},
                                                {"--mount", "/tmp"},
                                                {"--mount", "/tmp:"},
                                                {"--mount", "/tmp:/data:rx"}}) {
    EXPECT_THROW((void)Parse(false, words), CLI::ParseError) << words.back();
  }
}

}  // namespace
}  // namespace cella::cli
