#include "installer/foreign_python.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cella::installer {
namespace {

using Json = nlohmann::json;

Json Debian() {
  return {{"version", {3, 11, 2}}, {"implementation", "cpython"}, {"flags", ""},
          {"machine", "x86_64"},   {"libc", "glibc 2.36"},        {"packages", {{"Six", "1.16.0"}, {"a b", "1"}}}};
}

TEST(ForeignPythonTest, ReadsVersionPlatformAndPackages) {
  auto python = ParseForeignPython(Debian().dump());
  ASSERT_TRUE(python) << python.error().message;
  EXPECT_EQ(python->version, "3.11.2");
  EXPECT_EQ(python->platform, "x86_64-manylinux_2_36");
  ASSERT_EQ(python->packages.size(), 1u);
  EXPECT_EQ(python->packages[0].name, "six");
}

TEST(ForeignPythonTest, TakesThePlatformThatFitsTheLibrary) {
  for (auto [libc, platform] : {std::pair{"glibc 2.17", "x86_64-manylinux_2_17"},
                                {"glibc 2.27", "x86_64-manylinux_2_17"},
                                {"glibc 2.99.1", "x86_64-manylinux_2_40"},
                                {"musl", "x86_64-unknown-linux-musl"}}) {
    Json json = Debian();
    json["libc"] = libc;
    auto python = ParseForeignPython(json.dump());
    ASSERT_TRUE(python) << libc;
    EXPECT_EQ(python->platform, platform);
  }
}

TEST(ForeignPythonTest, RejectsWhatPackagesDoNotFitAndWhatIsNoDescription) {
  for (auto [key, value] : std::initializer_list<std::pair<const char*, Json>>{{"version", {3, 7, 1}},
                                                                               {"version", {2, 11, 2}},
                                                                               {"version", "3.11"},
                                                                               {"version", {3, -1, 2}},
                                                                               {"implementation", "pypy"},
                                                                               {"flags", "t"},
                                                                               {"machine", "riscv64"},
                                                                               {"machine", "x86_64 --evil"},
                                                                               {"libc", "glibc 2.12"},
                                                                               {"libc", "glibc 2.x"},
                                                                               {"libc", ""},
                                                                               {"packages", Json::array()}}) {
    Json json = Debian();
    json[key] = value;
    EXPECT_FALSE(ParseForeignPython(json.dump())) << key << " " << value;
  }
  for (const char* text : {"", "[]", "{}", "{"}) EXPECT_FALSE(ParseForeignPython(text)) << text;
}

}  // namespace
}  // namespace cella::installer
