#include "language/tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ToolTest : public ::testing::Test {
 protected:
  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
};

TEST_F(ToolTest, OnlyExecutableFilesOnAbsoluteElementsAreFound) {
  (void)dir_.Write("a/tool", "", 0644);
  std::filesystem::create_directories(dir_ / "b/tool");
  std::string good = dir_.Script("c/tool", "");
  std::string path = fmt::format("relative::{}:{}:{}:{}/", dir_ / "a", dir_ / "b", dir_ / "c", dir_ / "c");
  EXPECT_THAT(FindOnPath("tool", path), ElementsAre(good)) << "and only once";
  EXPECT_THAT(FindOnPath("tool", ""), IsEmpty());
}

TEST_F(ToolTest, ElementsOfPathThatGuestsMayWriteToAreSkipped) {
  (void)dir_.Script("work/bin/node", "");
  std::string good = dir_.Script("opt/bin/node", "");
  (void)dir_.Link("alias", "work/bin");
  host_.path = fmt::format("{}:{}:{}", dir_ / "work/bin", dir_ / "alias", dir_ / "opt/bin");
  EXPECT_EQ(FindOnPath("node", host_).size(), 3u);
  host_.guest_writable = {dir_ / "work"};
  EXPECT_THAT(FindOnPath("node", host_), ElementsAre(good));
  EXPECT_EQ(LocateTool("node", host_, {})->program, good);
}

TEST_F(ToolTest, WhatGuestsMayWriteIsNotAsked) {
  std::string tool = dir_.Script("work/node", fmt::format("touch '{}'; echo v99", dir_ / "escaped"));
  (void)dir_.Link("bin/node", tool);
  (void)dir_.Link("shims/node", tool);
  host_.guest_writable = {dir_ / "work"};
  EXPECT_EQ(HasVersion(tool, "22", host_).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(HasVersion(dir_ / "bin/node", "22", host_).error().code, ErrorCode::kUnsupported);
  host_.path = dir_ / "shims";
  EXPECT_EQ(LocateTool("node", host_, {{"{tool}"}, AskGives::kProgram}).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "escaped"));
}

TEST_F(ToolTest, ShimIsNotLedAstrayByWhatGuestsMayWrite) {
  // Its interpreter, its own directory and the files of the current one are all that decides.
  (void)dir_.Script("work/bin/sh", fmt::format("touch '{}'", dir_ / "escaped"));
  (void)dir_.Script("opt/bin/rustc", "");
  (void)dir_.Write("shims/rustc",
                   fmt::format("#!/usr/bin/env sh\nenv > '{}'; pwd > '{}'; echo '{}'\n", dir_ / "env", dir_ / "cwd",
                               dir_ / "opt/bin/rustc"),
                   0755);
  host_.guest_writable = {dir_ / "work"};
  host_.cwd = dir_ / "work";
  host_.path = fmt::format("{}:{}:relative:/usr/bin:/bin", dir_ / "work/bin", dir_ / "shims");
  host_.variables = {{"RUSTUP_HOME", dir_ / "work/rustup"}, {"CARGO_HOME", dir_ / "cargo"}};
  (void)dir_.Write("work/.python-version", "3.12.1\n3.11\n");
  auto tool = LocateTool("rustc", host_, {{"{tool}"}, AskGives::kProgram});
  ASSERT_TRUE(tool.has_value()) << tool.error().message;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "escaped"));
  EXPECT_EQ(dir_.Read("cwd"), "/\n");
  std::string env = dir_.Read("env");
  EXPECT_THAT(env, HasSubstr(fmt::format("PATH={}:/usr/bin:/bin\n", dir_ / "shims")));
  EXPECT_THAT(env, HasSubstr("CARGO_HOME="));
  EXPECT_THAT(env, ::testing::Not(HasSubstr("RUSTUP_HOME=")));
  EXPECT_THAT(env, HasSubstr("PYENV_VERSION=3.12.1:3.11\n")) << "the project's choice is kept, as data";
  for (const char* evil : {"../../work/evil", "/work/evil", ".hidden", "3.12:../x", "$(x)"}) {
    (void)dir_.Write("work/.python-version", evil);
    EXPECT_THAT(host_.ForAsking(), ::testing::Each(::testing::Not(::testing::StartsWith("PYENV_VERSION")))) << evil;
  }
}

TEST_F(ToolTest, ToolOfTheSystemNeedsNothing) {
  host_.path = "/usr/bin:/bin";
  auto tool = LocateTool("env", host_, {});
  ASSERT_TRUE(tool.has_value());
  EXPECT_THAT(tool->visible, IsEmpty());
  EXPECT_THAT(tool->path_dirs, IsEmpty());
}

TEST_F(ToolTest, PrefixIsWhatHoldsTheBinDirectory) {
  (void)dir_.Script("opt/node-20/bin/node", "");
  (void)dir_.Link("links/bin/node", dir_ / "opt/node-20/bin/node");
  host_.path = dir_ / "links/bin";
  auto tool = LocateTool("node", host_, {});
  ASSERT_TRUE(tool.has_value());
  EXPECT_EQ(tool->program, dir_ / "links/bin/node");
  EXPECT_EQ(tool->real, dir_ / "opt/node-20/bin/node");
  EXPECT_THAT(tool->visible, ElementsAre(dir_ / "links", dir_ / "opt/node-20"));
  EXPECT_THAT(tool->path_dirs, ElementsAre(dir_ / "links/bin"));
}

TEST_F(ToolTest, OutsideABinDirectoryItsOwnDirectoryIsShown) {
  (void)dir_.Script("opt/powershell/7/pwsh", "");
  host_.path = dir_ / "opt/powershell/7";
  EXPECT_THAT(LocateTool("pwsh", host_, {})->visible, ElementsAre(dir_ / "opt/powershell/7"));
}

TEST_F(ToolTest, LinkInTheHomeDirectoryIsReplacedByItsTarget) {
  (void)dir_.Script("opt/lua/bin/lua", "");
  (void)dir_.Link("home/bin/lua", dir_ / "opt/lua/bin/lua");
  host_.path = dir_ / "home/bin";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_TRUE(tool.has_value()) << tool.error().message;
  EXPECT_EQ(tool->program, dir_ / "opt/lua/bin/lua");
  EXPECT_THAT(tool->visible, ElementsAre(dir_ / "opt/lua"));
}

TEST_F(ToolTest, ProgramInTheHomeDirectoryItselfIsRefusedWithARemedy) {
  (void)dir_.Script("home/bin/lua", "");
  host_.path = dir_ / "home/bin";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_FALSE(tool.has_value());
  EXPECT_EQ(tool.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tool.error().message, HasSubstr("/usr/local"));
}

TEST_F(ToolTest, LinksThroughEtcAreNamed) {
  host_.path = "/usr/bin";
  for (const char* name : {"cc", "java", "awk", "vi"}) {
    if (!std::filesystem::exists(fmt::format("/etc/alternatives/{}", name))) continue;
    auto tool = LocateTool(name, host_, {});
    ASSERT_TRUE(tool.has_value());
    EXPECT_THAT(tool->etc, ElementsAre("alternatives"));
    return;
  }
  GTEST_SKIP() << "no program here is chosen through /etc/alternatives";
}

TEST_F(ToolTest, ProxyIsSeenThroughByItsPrefix) {
  (void)dir_.Script("cargo/bin/rustup", fmt::format("[ \"$1\" = --print ] && echo '{}'", dir_ / "toolchain"));
  (void)dir_.Link("cargo/bin/rustc", "rustup");
  (void)dir_.Script("toolchain/bin/rustc", "");
  host_.path = dir_ / "cargo/bin";
  auto tool = LocateTool("rustc", host_, {{"{tool}", "--print", "sysroot"}, AskGives::kPrefix});
  ASSERT_TRUE(tool.has_value()) << tool.error().message;
  EXPECT_EQ(tool->program, dir_ / "toolchain/bin/rustc");
  EXPECT_THAT(tool->visible, ElementsAre(dir_ / "toolchain"));
}

TEST_F(ToolTest, ShimThatFailsLetsTheNextOneOnPathTry) {
  (void)dir_.Script("rbenv/shims/ruby", "exit 1");
  (void)dir_.Script("opt/ruby/bin/ruby", "");
  host_.path = (dir_ / "rbenv/shims") + ":" + (dir_ / "opt/ruby/bin");
  auto tool = LocateTool("ruby", host_, {{"{tool}", "-e", "x"}, AskGives::kProgram});
  ASSERT_TRUE(tool.has_value());
  EXPECT_EQ(tool->program, dir_ / "opt/ruby/bin/ruby");
}

TEST_F(ToolTest, ShimThatCannotBeAskedIsRefusedWithARemedy) {
  (void)dir_.Script("asdf/shims/lua", "");
  host_.path = dir_ / "asdf/shims";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_FALSE(tool.has_value());
  EXPECT_THAT(tool.error().message, HasSubstr("in front of PATH"));
}

TEST_F(ToolTest, MissingToolIsNotFound) { EXPECT_EQ(LocateTool("nope", host_, {}).error().code, ErrorCode::kNotFound); }

TEST_F(ToolTest, VersionsCompareByNumber) {
  EXPECT_EQ(CompareVersions("22.10.0", "22.6"), 1);
  EXPECT_EQ(CompareVersions("20.20.2", "22.6"), -1);
  EXPECT_EQ(CompareVersions("22.6.0", "22.6"), 0);
  EXPECT_EQ(CompareVersions("", "0"), 0);
  std::string node = dir_.Script("bin/node", "echo v22.7.1");
  EXPECT_TRUE(HasVersion(node, "22.6", host_).value());
  EXPECT_FALSE(HasVersion(node, "23", host_).value());
}

}  // namespace
}  // namespace cella::language
