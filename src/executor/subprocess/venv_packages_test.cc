#include "executor/subprocess/venv_packages.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "executor/subprocess/venv_files.h"
#include "os/io.h"
#include "os/test_directory.h"

namespace cella::executor {
namespace {

namespace fs = std::filesystem;

// A virtual environment and layers, as the installer makes them.
class VenvPackagesTest : public testing::Test {
 protected:
  VenvPackagesTest() { fs::create_directories(site()); }

  std::string venv() const { return place_.path("venv"); }
  std::string site() const { return venv() + "/lib/python3.11/site-packages"; }
  std::string layer(const std::string& name) const { return place_.path(name); }

  static void Write(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << content;
  }
  static std::string Read(const std::string& path) { return os::ReadFile(path, 1 << 20).value_or("nothing"); }

  // A package of one module and one program, in a layer or in the environment.
  void AddTo(const std::string& directory, const std::string& name, const std::string& version) const {
    const std::string info = fmt::format("{}-{}.dist-info", name, version);
    const bool in_layer = directory != site();
    Write(fmt::format("{}/{}/__init__.py", directory, name), "version = '" + version + "'\n");
    const std::string program = in_layer ? directory + "/bin/" + name : venv() + "/bin/" + name;
    Write(program, "#!/usr/bin/env python3\nprint('" + version + "')\n");
    Write(fmt::format("{}/{}/RECORD", directory, info),
          fmt::format("{0}/__init__.py,sha256=x,1\n{1}/METADATA,,\n{1}/RECORD,,\n{2}bin/{0},,\n", name, info,
                      in_layer ? "" : "../../../"));
    Write(fmt::format("{}/{}/METADATA", directory, info), "Name: " + name + "\n");
  }

  os::TempDirectory place_;
};

TEST_F(VenvPackagesTest, InstallsModulesAndPrograms) {
  AddTo(layer("a"), "six", "1.17");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a")}));
  EXPECT_EQ(Read(site() + "/six/__init__.py"), "version = '1.17'\n");
  EXPECT_EQ(Read(venv() + "/bin/six"), fmt::format("#!{}/bin/python\nprint('1.17')\n", venv()));
  struct stat info;
  ASSERT_EQ(stat((venv() + "/bin/six").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755U);
  // As pip reads it, to remove the package.
  EXPECT_NE(Read(site() + "/six-1.17.dist-info/RECORD").find("../../../bin/six,,\n"), std::string::npos);
}

TEST_F(VenvPackagesTest, ReplacesAnotherVersionAndLeavesNothingOfIt) {
  AddTo(site(), "six", "1.16");
  Write(site() + "/six/__pycache__/__init__.cpython-311.pyc", "x");
  AddTo(layer("a"), "six", "1.17");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a"), .own = {"six"}}));
  EXPECT_EQ(Read(site() + "/six/__init__.py"), "version = '1.17'\n");
  EXPECT_FALSE(fs::exists(site() + "/six-1.16.dist-info"));
  EXPECT_FALSE(fs::exists(site() + "/six/__pycache__"));
}

TEST_F(VenvPackagesTest, RemovesWhatTheSessionAddedAndKeepsWhatWasThere) {
  AddTo(site(), "six", "1.16");
  AddTo(layer("a"), "six", "1.17");
  AddTo(layer("a"), "rich", "14.0");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a"), .own = {"six"}}));
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = layer("a"), .after = "", .own = {"six"}}));
  EXPECT_TRUE(fs::exists(site() + "/six/__init__.py"));
  EXPECT_FALSE(fs::exists(site() + "/rich"));
  EXPECT_FALSE(fs::exists(site() + "/rich-14.0.dist-info"));
  EXPECT_FALSE(fs::exists(venv() + "/bin/rich"));
}

TEST_F(VenvPackagesTest, CompletesAPackageWithoutRecord) {
  AddTo(layer("a"), "six", "1.17");
  Write(site() + "/six-1.17.dist-info/METADATA", "cut");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a")}));
  EXPECT_EQ(Read(site() + "/six/__init__.py"), "version = '1.17'\n");
}

// The kernel runs code that may write to the environment.
TEST_F(VenvPackagesTest, FollowsNoLinkOutOfTheEnvironment) {
  AddTo(layer("a"), "six", "1.17");
  fs::create_directories(place_.path("outside"));
  fs::create_directory_symlink(place_.path("outside"), site() + "/six");
  EXPECT_FALSE(ChangePackages({.venv = venv(), .before = "", .after = layer("a")}));
  EXPECT_TRUE(fs::is_empty(place_.path("outside")));
}

TEST_F(VenvPackagesTest, CopiesMissingPackagesThroughNoLinkOutOfTheEnvironment) {
  const std::string from = place_.path("from");
  const std::string packages = from + "/lib/python3.11/site-packages";
  Write(packages + "/six/__init__.py", "x");
  Write(packages + "/six-1.17.dist-info/RECORD", "six/__init__.py,,\n");
  fs::create_directories(place_.path("outside"));
  fs::create_directory_symlink(place_.path("outside"), site() + "/six");
  EXPECT_FALSE(CopyMissingPackages(from, venv()));
  EXPECT_TRUE(fs::is_empty(place_.path("outside")));
  fs::remove(site() + "/six");
  ASSERT_TRUE(CopyMissingPackages(from, venv()));
  EXPECT_EQ(Read(site() + "/six/__init__.py"), "x");
}

TEST_F(VenvPackagesTest, RemovesNothingThatARecordNamesOutside) {
  AddTo(layer("a"), "six", "1.17");
  Write(place_.path("kept"), "x");
  Write(site() + "/six-1.0.dist-info/RECORD",
        "../../../../kept,,\n" + place_.path("kept") + ",,\n../../../..,,\nsix-1.0.dist-info/RECORD,,\n");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a")}));
  EXPECT_EQ(Read(place_.path("kept")), "x");
  EXPECT_FALSE(fs::exists(site() + "/six-1.0.dist-info"));
}

// A cache of uv has the same file under another name.
TEST_F(VenvPackagesTest, DoesNotWriteThroughOtherNamesOfAFile) {
  AddTo(layer("a"), "six", "1.17");
  Write(place_.path("cached"), "old\n");
  fs::create_directories(site() + "/six");
  fs::create_hard_link(place_.path("cached"), site() + "/six/__init__.py");
  ASSERT_TRUE(ChangePackages({.venv = venv(), .before = "", .after = layer("a")}));
  EXPECT_EQ(Read(place_.path("cached")), "old\n");
}

TEST_F(VenvPackagesTest, TwoSessionsMakeTheSameEnvironment) {
  Write(venv() + "/pyvenv.cfg", "version = 3.11\n");
  ASSERT_TRUE(CopyVenv(venv(), place_.path("kept")));
  EXPECT_TRUE(CopyVenv(venv(), place_.path("kept")));
  EXPECT_FALSE(fs::exists(place_.path("kept/venv")));
  Write(place_.path("other/file"), "x");
  EXPECT_FALSE(CopyVenv(venv(), place_.path("other")));
  size_t left = 0;
  for (const auto& entry : fs::directory_iterator(place_.path())) left += entry.path().filename().native()[0] == '.';
  EXPECT_EQ(left, 0U);
}

TEST_F(VenvPackagesTest, RefusesADirectoryWithoutPackages) {
  fs::create_directories(place_.path("empty"));
  EXPECT_FALSE(ChangePackages({.venv = place_.path("empty"), .before = "", .after = ""}));
}

}  // namespace
}  // namespace cella::executor
