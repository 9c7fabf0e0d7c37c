#include "language/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Pair;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() { options_.host = FakeHost(dir_); }

  // A tool in a prefix of its own, alone on PATH with those made before.
  std::string Tool(std::string_view name, std::string_view body = "") {
    std::string path = dir_.Script(fmt::format("opt/{}/bin/{}", name, name), body);
    options_.host.path += fmt::format(":{}/opt/{}/bin", dir_.path(), name);
    return path;
  }
  Result<Plan> Make(std::string language, std::string code) { return MakePlan(*table_, {language, code}, options_); }
  std::string Message(std::string language, std::string code) {
    auto plan = Make(std::move(language), std::move(code));
    return plan ? "ok" : plan.error().message;
  }

  TempDir dir_;
  Result<LanguageTable> table_ = LanguageTable::Load(CELLA_LANGUAGES_TOML);
  PlanOptions options_;
};

TEST_F(PlanTest, InterpretedLanguageHasOneCommand) {
  std::string ruby = Tool("ruby");
  options_.args = {"-x", "two words"};
  auto plan = Make("rb", "# filename: src/a.rb\nputs 1");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->language, "ruby");
  EXPECT_EQ(plan->file_name, "src/a.rb");
  ASSERT_EQ(plan->commands.size(), 1u);
  EXPECT_EQ(plan->commands[0].purpose, Purpose::kRun);
  EXPECT_THAT(plan->commands[0].argv, ElementsAre(ruby, "src/a.rb", "-x", "two words"));
  EXPECT_THAT(plan->commands[0].candidates, IsEmpty());
  EXPECT_THAT(plan->visible, ElementsAre(dir_ / "opt/ruby"));
  EXPECT_THAT(plan->path_dirs, ElementsAre(dir_ / "opt/ruby/bin"));
}

TEST_F(PlanTest, CompiledLanguageBuildsIntoTheScratchDirectory) {
  std::string go = Tool("go");
  options_.scratch_dir = "/scratch";
  options_.args = {"arg"};
  auto plan = Make("golang", "package main");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->commands.size(), 2u);
  EXPECT_EQ(plan->commands[0].purpose, Purpose::kCompile);
  EXPECT_EQ(plan->commands[0].argv[0], go);
  std::string program = plan->commands[1].argv[0];
  EXPECT_THAT(program, MatchesRegex("/scratch/cella-[0-9a-f]{8}"));
  EXPECT_THAT(plan->commands[0].argv, ElementsAre(go, "build", "-o", program, plan->file_name));
  EXPECT_THAT(plan->commands[1].argv, ElementsAre(program, "arg"));
  EXPECT_THAT(plan->env, Contains(Pair("GOCACHE", "/scratch/go-build")));
}

TEST_F(PlanTest, UsesNextAlternativeIfTheFirstIsMissing) {
  std::string clang = Tool("clang");
  EXPECT_EQ(Make("c", "int main;")->commands[0].argv[0], clang);
  (void)Tool("gcc");
  EXPECT_THAT(Make("c", "int main;")->commands[0].argv[0], HasSubstr("/gcc"));
}

TEST_F(PlanTest, TypeScriptUsesARecentNode) {
  std::string node = Tool("node", "echo v22.9.0");
  auto plan = Make("ts", "let x: number = 1");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->commands[0].argv[1], "--experimental-strip-types");
  std::string tsx = Tool("tsx");
  plan = Make("ts", "let x: number = 1");
  EXPECT_EQ(plan->commands[0].argv[0], tsx);
  EXPECT_THAT(plan->path_dirs, ElementsAre(dir_ / "opt/tsx/bin", dir_ / "opt/node/bin")) << "tsx is a node program";
}

TEST_F(PlanTest, TypeScriptRejectsAnOldNode) {
  (void)Tool("node", "echo v20.20.2");
  EXPECT_THAT(Message("ts", "x"),
              AllOf(HasSubstr("tsx, ts-node, deno, bun, node >= 22.6 not found"), HasSubstr("npm")));
}

TEST_F(PlanTest, MissingToolErrorNamesTheToolsAndTheHint) {
  auto plan = Make("lua", "print(1)");
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("lua, lua5.4, lua5.3, luajit"), HasSubstr("install it with: sudo apt install lua5.4")));
}

TEST_F(PlanTest, RejectsMissingNeededProgram) {
  (void)Tool("rustc");
  EXPECT_THAT(Message("rust", "fn main(){}"), HasSubstr("cc not found"));
  (void)Tool("cc");
  auto plan = Make("rust", "fn main(){}");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_THAT(plan->visible, ElementsAre(dir_ / "opt/cc", dir_ / "opt/rustc"));
}

TEST_F(PlanTest, ToolThatCannotBeShownIsTheReportedError) {
  (void)dir_.Script("home/bin/lua", "");
  options_.host.path = dir_ / "home/bin";
  EXPECT_EQ(Make("lua", "x").error().code, ErrorCode::kUnsupported);
}

TEST_F(PlanTest, JavaRunsTheClassWithMain) {
  std::string java = Tool("java");
  std::string javac = Tool("javac");
  auto launcher = Make("java", "public class App { public static void main(String[] a) {} }");
  ASSERT_TRUE(launcher.has_value()) << launcher.error().message;
  EXPECT_EQ(launcher->file_name, "App.java");
  ASSERT_EQ(launcher->commands.size(), 1u);
  EXPECT_EQ(launcher->commands[0].argv.back(), "App.java");
  auto by_class = Make("java", "class A {} public class App { public static void main(String[] a) {} }");
  ASSERT_EQ(by_class->commands.size(), 2u);
  EXPECT_EQ(by_class->commands[0].argv[0], javac);
  EXPECT_EQ(by_class->commands[1].argv[0], java);
  EXPECT_EQ(by_class->commands[1].argv.back(), "App");
}

TEST_F(PlanTest, PythonPlanHasItsPrefixAndVariables) {
  (void)FakePython(dir_, "base", "python3.12", "3.12.1");
  std::string python = FakeVenv(dir_, "venv", dir_ / "base/bin", "3.12.1") + "/bin/python";
  options_.venv = dir_ / "venv";
  auto plan = Make("", "print(1)");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_THAT(plan->commands[0].argv, ElementsAre(python, plan->file_name));
  EXPECT_THAT(plan->visible, ElementsAre(dir_ / "base", dir_ / "venv"));
  EXPECT_THAT(plan->env, Contains(Pair("VIRTUAL_ENV", dir_ / "venv")));
  EXPECT_THAT(plan->env, Contains(Pair("PYTHONUNBUFFERED", "1")));
  ASSERT_TRUE(plan->python.has_value());
  EXPECT_EQ(plan->python->version, "3.12.1");
}

TEST_F(PlanTest, ShellFindsTheChosenPython) {
  (void)Tool("bash");
  (void)FakePython(dir_, "py", "python3", "3.12.1");
  options_.host.path += ":" + (dir_ / "py/bin");
  EXPECT_FALSE(Make("bash", "echo")->python.has_value());
  EXPECT_THAT(Make("bash", "python3 x.py")->path_dirs, Contains(dir_ / "py/bin"));
  options_.venv = dir_ / "nope";
  EXPECT_EQ(Make("bash", "echo").error().code, ErrorCode::kNotFound) << "an environment that was named must be there";
}

TEST_F(PlanTest, RootfsResolvesNothingOnTheHost) {
  options_.rootfs = "/images/debian";
  auto python = Make("python", "x");
  ASSERT_TRUE(python.has_value());
  EXPECT_EQ(python->commands[0].argv[0], "python3");
  EXPECT_THAT(python->commands[0].candidates, ElementsAre("python3", "python"));
  EXPECT_THAT(python->visible, IsEmpty());
  EXPECT_THAT(python->etc, IsEmpty());
  options_.python = "3.12.1";
  EXPECT_THAT(Make("python", "x")->commands[0].candidates, ElementsAre("python3.12"));
  auto c = Make("c", "x");
  EXPECT_THAT(c->commands[0].candidates, ElementsAre("cc", "gcc", "clang"));
  EXPECT_THAT(c->commands[1].candidates, IsEmpty());
  auto typescript = Make("ts", "x");
  EXPECT_EQ(typescript->fallbacks.size(), 4u);
  EXPECT_THAT(typescript->fallbacks[1][0].candidates, ElementsAre("deno"));
}

TEST_F(PlanTest, SaveOnlyHasNoCommands) {
  auto plan = Make("html", "<!-- filename: index.html -->\n<p>");
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->save_only);
  EXPECT_EQ(plan->file_name, "index.html");
  EXPECT_THAT(plan->commands, IsEmpty());
}

TEST_F(PlanTest, GivenFileNamePrecedesTheComment) {
  (void)Tool("ruby");
  options_.file_name = "given.rb";
  EXPECT_EQ(Make("", "# filename: other.rb")->file_name, "given.rb");
}

TEST_F(PlanTest, FileNameIsNotParsedAsAnOption) {
  (void)Tool("ruby");
  options_.file_name = "-e.rb";
  auto plan = Make("", "x");
  EXPECT_EQ(plan->file_name, "-e.rb");
  EXPECT_EQ(plan->commands[0].argv[1], "./-e.rb");
}

TEST_F(PlanTest, PlaceholdersInNamesAndArgumentsAreNotExpanded) {
  std::string ruby = Tool("ruby");
  options_.file_name = "{tool}.rb";
  options_.args = {"{file}", "{args}"};
  EXPECT_THAT(Make("", "x")->commands[0].argv, ElementsAre(ruby, "{tool}.rb", "{file}", "{args}"));
}

TEST_F(PlanTest, RejectsInvalidInput) {
  (void)Tool("ruby");
  EXPECT_EQ(Make("cobol", "x").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Message("ruby", "# filename: ../x.rb"), "file name '../x.rb' is not in the workspace");
  EXPECT_EQ(Message("ruby", std::string("a\0b", 3)), "the code contains a NUL byte");
  EXPECT_THAT(Message("html", std::string("a\0b", 3)), HasSubstr("NUL"));
  EXPECT_THAT(Message("ruby", std::string(kMaxCodeBytes + 1, 'x')), AllOf(HasSubstr("33554433"), HasSubstr("32m")));
  options_.args = {std::string("a\0b", 3)};
  EXPECT_EQ(Make("ruby", "x").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace cella::language
