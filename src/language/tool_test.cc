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

TEST_F(ToolTest, FindsOnlyExecutableFilesInAbsoluteDirectories) {
  (void)dir_.Write("a/tool", "", 0644);
  std::filesystem::create_directories(dir_ / "b/tool");
  std::string good = dir_.Script("c/tool", "");
  std::string path = fmt::format("relative::{}:{}:{}:{}/", dir_ / "a", dir_ / "b", dir_ / "c", dir_ / "c");
  EXPECT_THAT(FindOnPath("tool", path), ElementsAre(good)) << "and only once";
  EXPECT_THAT(FindOnPath("tool", ""), IsEmpty());
}

TEST_F(ToolTest, SystemToolNeedsNoVisibleDirectories) {
  host_.path = "/usr/bin:/bin";
  auto tool = LocateTool("env", host_, {});
  ASSERT_TRUE(tool.has_value());
  EXPECT_THAT(tool->visible, IsEmpty());
  EXPECT_THAT(tool->path_dirs, IsEmpty());
}

TEST_F(ToolTest, PrefixIsTheParentOfBin) {
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

TEST_F(ToolTest, ToolOutsideBinExposesItsOwnDirectory) {
  (void)dir_.Script("opt/powershell/7/pwsh", "");
  host_.path = dir_ / "opt/powershell/7";
  EXPECT_THAT(LocateTool("pwsh", host_, {})->visible, ElementsAre(dir_ / "opt/powershell/7"));
}

TEST_F(ToolTest, LinkInTheHomeDirectoryResolvesToItsTarget) {
  (void)dir_.Script("opt/lua/bin/lua", "");
  (void)dir_.Link("home/bin/lua", dir_ / "opt/lua/bin/lua");
  host_.path = dir_ / "home/bin";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_TRUE(tool.has_value()) << tool.error().message;
  EXPECT_EQ(tool->program, dir_ / "opt/lua/bin/lua");
  EXPECT_THAT(tool->visible, ElementsAre(dir_ / "opt/lua"));
}

TEST_F(ToolTest, RejectsProgramDirectlyInTheHomeDirectory) {
  (void)dir_.Script("home/bin/lua", "");
  host_.path = dir_ / "home/bin";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_FALSE(tool.has_value());
  EXPECT_EQ(tool.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tool.error().message, HasSubstr("/usr/local"));
}

TEST_F(ToolTest, LinksThroughEtcAreListed) {
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

TEST_F(ToolTest, ProxyIsResolvedByItsPrefix) {
  const std::string toolchain = dir_ / "home/.rustup/toolchains/stable";
  (void)dir_.Script("home/.cargo/bin/rustup", fmt::format("[ \"$1\" = --print ] && echo '{}'", toolchain));
  (void)dir_.Link("home/.cargo/bin/rustc", "rustup");
  (void)dir_.Script("home/.rustup/toolchains/stable/bin/rustc", "");
  host_.path = dir_ / "home/.cargo/bin";
  auto tool = LocateTool("rustc", host_, {{"{tool}", "--print", "sysroot"}, AskGives::kPrefix});
  ASSERT_TRUE(tool.has_value()) << tool.error().message;
  EXPECT_EQ(tool->program, toolchain + "/bin/rustc");
  EXPECT_THAT(tool->visible, ElementsAre(toolchain));
}

TEST_F(ToolTest, ProxyCannotNameWhatItDidNotSee) {
  (void)dir_.Script("private/bin/ruby", "");
  (void)dir_.Script("work/shims/ruby", fmt::format("echo '{}'", dir_ / "private/bin/ruby"));
  (void)dir_.Link("work/shims/link", dir_ / "private/bin/ruby");
  host_.path = dir_ / "work/shims";
  const AskCommand ask{{"{tool}"}, AskGives::kProgram};
  EXPECT_THAT(LocateTool("ruby", host_, ask).error().message, HasSubstr("where no program is"));
  (void)dir_.Script("work/shims/ruby", fmt::format("echo '{}'", dir_ / "work/shims/link"));
  EXPECT_THAT(LocateTool("ruby", host_, ask).error().message, HasSubstr("where no program is"));
}

TEST_F(ToolTest, OnTheHostProgramsAreTakenAsTheyAre) {
  std::string shim = dir_.Script("asdf/shims/lua", "");
  host_.path = dir_ / "asdf/shims";
  EXPECT_EQ(FindTool("lua", host_)->program, shim);
  EXPECT_THAT(FindTool("lua", host_)->path_dirs, ElementsAre(dir_ / "asdf/shims"));
  EXPECT_EQ(FindTool("nope", host_).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Asked(host_), IsEmpty());
}

TEST_F(ToolTest, FailingShimIsSkippedForTheNextOnPath) {
  (void)dir_.Script("rbenv/shims/ruby", "exit 1");
  (void)dir_.Script("opt/ruby/bin/ruby", "");
  host_.path = (dir_ / "rbenv/shims") + ":" + (dir_ / "opt/ruby/bin");
  auto tool = LocateTool("ruby", host_, {{"{tool}", "-e", "x"}, AskGives::kProgram});
  ASSERT_TRUE(tool.has_value());
  EXPECT_EQ(tool->program, dir_ / "opt/ruby/bin/ruby");
}

TEST_F(ToolTest, RejectsShimThatCannotBeQueried) {
  (void)dir_.Script("asdf/shims/lua", "");
  host_.path = dir_ / "asdf/shims";
  auto tool = LocateTool("lua", host_, {});
  ASSERT_FALSE(tool.has_value());
  EXPECT_THAT(tool.error().message, HasSubstr("in front of PATH"));
}

TEST_F(ToolTest, MissingToolIsNotFound) { EXPECT_EQ(LocateTool("nope", host_, {}).error().code, ErrorCode::kNotFound); }

TEST_F(ToolTest, VersionsCompareNumerically) {
  EXPECT_EQ(CompareVersions("22.10.0", "22.6"), 1);
  EXPECT_EQ(CompareVersions("20.20.2", "22.6"), -1);
  EXPECT_EQ(CompareVersions("22.6.0", "22.6"), 0);
  EXPECT_EQ(CompareVersions("", "0"), 0);
  auto node = DescribeTool(dir_.Script("opt/bin/node", "echo v22.7.1"), host_);
  ASSERT_TRUE(node.has_value());
  EXPECT_TRUE(HasVersion(*node, "22.6", host_).value());
  EXPECT_FALSE(HasVersion(*node, "23", host_).value());
  EXPECT_THAT(Asked(host_).back().visible, ElementsAre(dir_ / "opt")) << "it sees what it would see in a run";
}

}  // namespace
}  // namespace cella::language
