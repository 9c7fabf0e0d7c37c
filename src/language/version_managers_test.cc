#include "language/version_managers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class VersionManagersTest : public ::testing::Test {
 protected:
  ProxyQuestion Describe(const std::string& program) {
    auto question = DescribeProxy(program, host_);
    EXPECT_TRUE(question.has_value()) << question.error().message;
    return question ? *question : ProxyQuestion();
  }

  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
};

TEST_F(VersionManagersTest, ShimSeesItsManagerAndItsSettings) {
  std::string shim = dir_.Script("home/.pyenv/shims/python3", "");
  host_.path = fmt::format("{}:{}:/usr/bin", dir_ / "work/bin", dir_ / "home/.pyenv/shims");
  host_.variables = {{"PYENV_VERSION", "3.12.1"}, {"RUSTUP_TOOLCHAIN", "nightly"}};
  ProxyQuestion question = Describe(shim);
  EXPECT_THAT(question.visible, ElementsAre(dir_ / "home/.pyenv"));
  EXPECT_THAT(question.env, IsSupersetOf({"PYENV_ROOT=" + (dir_ / "home/.pyenv"), std::string("PYENV_VERSION=3.12.1"),
                                          "HOME=" + (dir_ / "home"), std::string("RUSTUP_AUTO_INSTALL=0")}));
  EXPECT_THAT(question.env, Contains(StartsWith("PATH=" + (dir_ / "home/.pyenv/shims:/usr/"))));
  EXPECT_THAT(question.env, Each(AllOf(Not(StartsWith("RUSTUP_TOOLCHAIN=")), ::testing::Ne("HOME=/tmp"))));
  EXPECT_THAT(question.deciding, IsSupersetOf({dir_ / "home/.pyenv/version", dir_ / "home/.pyenv/versions"}));
}

TEST_F(VersionManagersTest, VariablesMoveAManager) {
  std::string shim = dir_.Script("opt/pyenv/shims/python3", "");
  host_.variables = {{"PYENV_ROOT", dir_ / "opt/pyenv"}};
  ProxyQuestion question = Describe(shim);
  EXPECT_THAT(question.visible, ElementsAre(dir_ / "opt/pyenv"));
  EXPECT_THAT(question.env, Contains("PYENV_ROOT=" + (dir_ / "opt/pyenv")));
}

TEST_F(VersionManagersTest, ProxyOfRustupSeesNoCredentials) {
  (void)dir_.Script("home/.cargo/bin/rustup", "");
  (void)dir_.Write("home/.cargo/credentials.toml", "");
  (void)dir_.Write("home/.rustup/settings.toml", "");
  std::string proxy = dir_.Link("home/.cargo/bin/rustc", "rustup");
  EXPECT_THAT(Describe(proxy).visible, ElementsAre(dir_ / "home/.cargo/bin", dir_ / "home/.rustup"));
}

TEST_F(VersionManagersTest, StrangersShimSeesOnlyItsOwnDirectory) {
  (void)dir_.Write("home/.rustup/settings.toml", "");
  (void)dir_.Write("home/.pyenv/version", "");
  host_.path = dir_ / "home/.pyenv/shims";
  std::string planted = dir_.Script("work/shims/python3", "");
  EXPECT_THAT(Describe(planted).visible, ElementsAre(dir_ / "work/shims"));
  (void)dir_.Script("work/bin/rustup", "");
  EXPECT_THAT(Describe(dir_.Link("work/bin/rustc", "rustup")).visible, ElementsAre(dir_ / "work"));
  EXPECT_THAT(Describe(planted).env, Contains("HOME=/tmp"));
}

TEST_F(VersionManagersTest, ProjectsVersionIsTakenOverAsAName) {
  std::string shim = dir_.Script("home/.pyenv/shims/python3", "");
  std::filesystem::create_directories(dir_ / "work/deep");
  host_.cwd = dir_ / "work/deep";
  (void)dir_.Write("work/.python-version", "3.12.1\n3.11\n");
  EXPECT_THAT(Describe(shim).env, Contains("PYENV_VERSION=3.12.1:3.11"));
  host_.variables = {{"PYENV_VERSION", "3.9"}};
  EXPECT_THAT(Describe(shim).env, Contains("PYENV_VERSION=3.9")) << "the caller's own choice is stronger";
  host_.variables.clear();
  for (const char* evil : {"../../work/evil", "/work/evil", ".hidden", "3.12:../x", "$(x)"}) {
    (void)dir_.Write("work/.python-version", evil);
    EXPECT_THAT(Describe(shim).env, Each(Not(StartsWith("PYENV_VERSION")))) << evil;
  }
}

TEST_F(VersionManagersTest, ProxiesAreRecognised) {
  EXPECT_TRUE(IsProxy("ruby", dir_.Script("x/shims/ruby", "")));
  (void)dir_.Script("bin/rustup", "");
  EXPECT_TRUE(IsProxy("rustc", dir_.Link("bin/rustc", "rustup")));
  EXPECT_FALSE(IsProxy("rustup", dir_ / "bin/rustup"));
  EXPECT_FALSE(IsProxy("cc", dir_.Link("bin/cc", "rustc2")));
  EXPECT_TRUE(IsShim(dir_.Script("bin/python3", "")));
  EXPECT_FALSE(IsShim("/bin/sh"));
}

}  // namespace
}  // namespace cella::language
