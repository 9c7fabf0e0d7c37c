#include "doctor/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace cella::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report Sample() {
  return {.sandbox = true,
          .version = "1.2.3",
          .checks = {{.name = "kernel", .detail = "6.12.0"},
                     {.section = Section::kLimits,
                      .name = "cgroups",
                      .status = CheckStatus::kDegraded,
                      .detail = "none",
                      .fix = "start it in a scope:\n  systemd-run --user --scope cella"}}};
}

TEST(RenderJsonTest, HasTheDocumentedShape) {
  EXPECT_EQ(RenderJson(Sample()), R"({"sandbox":true,"version":"1.2.3","checks":[)"
                                  R"({"name":"kernel","status":"ok","detail":"6.12.0","fix":null},)"
                                  R"({"name":"cgroups","status":"degraded","detail":"none",)"
                                  R"("fix":"start it in a scope:\n  systemd-run --user --scope cella"}]})"
                                  "\n");
}

TEST(RenderJsonTest, ReplacesInvalidUtf8) {
  Report report = Sample();
  report.checks[0].detail = "/tmp/\xff";
  auto json = nlohmann::json::parse(RenderJson(report), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["checks"][0]["detail"], "/tmp/\xef\xbf\xbd");
}

TEST(RenderTableTest, AlignsAndIndentsFixes) {
  EXPECT_EQ(RenderTable(Sample(), {}),
            "The sandbox\n"
            "  ok        kernel  6.12.0\n"
            "\n"
            "Limits\n"
            "  degraded  cgroups  none\n"
            "                     fix: start it in a scope:\n"
            "                            systemd-run --user --scope cella\n"
            "\n"
            "cella 1.2.3: The sandbox runs here; 1 degraded.\n");
}

TEST(RenderTableTest, WrapsProseButNotCommands) {
  Report report = Sample();
  report.checks[0].detail = std::string(30, 'a') + " " + std::string(30, 'b');
  std::string command = "  " + std::string(200, 'x') + " " + std::string(50, 'y');
  report.checks[1].fix = command;
  std::string text = RenderTable(report, {.width = 60});
  EXPECT_THAT(text, HasSubstr(std::string(30, 'a') + "\n"));
  EXPECT_THAT(text, HasSubstr(command));
}

TEST(RenderTableTest, ColoursOnlyIfRequested) {
  EXPECT_THAT(RenderTable(Sample(), {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderTable(Sample(), {.colours = Colours::kOn}), HasSubstr("\x1b[33mdegraded\x1b[0m"));
}

TEST(RenderTableTest, RemovesControlCharacters) {
  Report report = Sample();
  report.checks[0].detail = "evil\x1b[2J";
  EXPECT_THAT(RenderTable(report, {}), HasSubstr("evil?[2J"));
}

TEST(RenderTableTest, ReportsThatTheSandboxCannotRun) {
  Report report = Sample();
  report.sandbox = false;
  EXPECT_THAT(RenderTable(report, {}), HasSubstr("cannot run here"));
}

}  // namespace
}  // namespace cella::doctor
