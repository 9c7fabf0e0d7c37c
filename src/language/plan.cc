#include "language/plan.h"

#include <dirent.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "base/units.h"
#include "language/detect.h"
#include "language/filename.h"
#include "language/java_source.h"
#include "language/python_search.h"
#include "language/tool.h"
#include "language/visible.h"

namespace cella::language {
namespace {

void AddUnique(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& each : from) {
    if (std::ranges::find(to, each) == to.end()) to.push_back(each);
  }
}

// The values of the placeholders in argv and env templates.
struct Words {
  std::string file;
  std::string out;
  std::string dir;
  std::string scratch;
  std::string main_class;
  std::string tool;
  std::vector<std::pair<std::string, std::string>> needs;  // name, program
};

void ReplaceAll(std::string& text, std::string_view placeholder, std::string_view value) {
  for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at + value.size())) {
    text.replace(at, placeholder.size(), value);
  }
}

std::string Expand(std::string text, const Words& words) {
  if (!text.contains('{')) return text;
  ReplaceAll(text, "{tool}", words.tool);
  ReplaceAll(text, "{scratch}", words.scratch);
  ReplaceAll(text, "{out}", words.out);
  ReplaceAll(text, "{dir}", words.dir);
  ReplaceAll(text, "{class}", words.main_class);
  for (const auto& [name, program] : words.needs) ReplaceAll(text, "{" + name + "}", program);
  // Last: a file may be called "{tool}.py".
  ReplaceAll(text, "{file}", words.file);
  return text;
}

Command MakeCommand(Purpose purpose, const std::vector<std::string>& words, const Words& values,
                    const std::vector<std::string>& args) {
  Command command;
  command.purpose = purpose;
  for (const std::string& word : words) {
    if (word == "{args}") {
      command.argv.insert(command.argv.end(), args.begin(), args.end());
    } else {
      command.argv.push_back(Expand(word, values));
    }
  }
  return command;
}

std::vector<Command> MakeCommands(const Recipe& recipe, const Words& values, const std::vector<std::string>& args) {
  std::vector<Command> commands;
  if (!recipe.compile.empty()) commands.push_back(MakeCommand(Purpose::kCompile, recipe.compile, values, args));
  commands.push_back(MakeCommand(Purpose::kRun, recipe.run, values, args));
  return commands;
}

// The entries of the host's /etc that fit the patterns.
std::vector<std::string> MatchEtc(const std::vector<std::string>& patterns) {
  std::vector<std::string> found;
  if (patterns.empty()) return found;
  std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> open(::opendir("/etc"));
  if (!open) return found;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_name[0] == '.') continue;
    bool fits = std::ranges::any_of(
        patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), entry->d_name, 0) == 0; });
    if (fits) found.emplace_back(entry->d_name);
  }
  std::ranges::sort(found);
  return found;
}

class Planner {
 public:
  Planner(const LanguageTable& table, const Language& language, const PlanOptions& options, Plan& plan)
      : table_(table), language_(language), options_(options), plan_(plan) {}

  Status Run() {
    values_.file = plan_.file_name.starts_with('-') ? "./" + plan_.file_name : plan_.file_name;
    size_t slash = plan_.file_name.rfind('/');
    values_.dir = slash == std::string::npos ? "." : plan_.file_name.substr(0, slash);
    if (!options_.directory.empty()) {
      values_.file = options_.directory + "/" + plan_.file_name;
      values_.dir = slash == std::string::npos ? options_.directory : options_.directory + "/" + values_.dir;
    }
    if (!plan_.generated_file.empty()) plan_.generated_file = values_.file;
    values_.scratch = options_.scratch_dir;
    values_.out = fmt::format("{}/cella-{}", options_.scratch_dir, RandomHex(8));
    for (const auto& [name, value] : language_.env) plan_.env.emplace_back(name, Expand(value, values_));
    if (!options_.rootfs.empty()) return ForRootfs();
    if (language_.python) return ForPython();
    TRY_VOID(ForTools());
    AddUnique(plan_.etc, MatchEtc(language_.etc));
    if (language_.calls_python) TRY_VOID(AddPythonForShell());
    return {};
  }

 private:
  // The recipe as it applies to this code: Java's other way when main is not in the first class.
  Recipe Adapted(const Recipe& recipe) {
    if (!language_.java_class || language_.by_class.run.empty()) return recipe;
    JavaSource source = InspectJava(plan_.code);
    if (source.main_is_first) return recipe;
    values_.main_class = source.main_class;
    Recipe adapted = recipe;
    adapted.compile = language_.by_class.compile;
    adapted.run = language_.by_class.run;
    return adapted;
  }

  Status ForRootfs() {
    for (const Recipe& original : language_.recipes) {
      Recipe recipe = Adapted(original);
      if (language_.python && !options_.python.empty()) {
        std::optional<std::string> version = ParsePythonVersion(options_.python);
        size_t dot = version ? version->find('.') : std::string::npos;
        size_t second = dot == std::string::npos ? dot : version->find('.', dot + 1);
        recipe.tools = {version ? "python" + version->substr(0, second) : options_.python};
      }
      if (language_.python && !options_.venv.empty()) recipe.tools = {options_.venv + "/bin/python"};
      values_.tool = recipe.tools.front();
      values_.needs.clear();
      for (const std::string& need : recipe.needs) values_.needs.emplace_back(need, need);
      std::vector<Command> commands = MakeCommands(recipe, values_, options_.args);
      for (Command& command : commands) {
        if (command.argv[0] == values_.tool) {
          command.candidates = recipe.tools;
        } else if (!command.argv[0].contains('/')) {
          command.candidates = {command.argv[0]};
        }
      }
      if (plan_.commands.empty()) {
        plan_.commands = std::move(commands);
      } else {
        plan_.fallbacks.push_back(std::move(commands));
      }
    }
    return {};
  }

  Status ForPython() {
    TRY(Python python, ResolvePython({options_.python, options_.venv, options_.host, options_.destination}));
    values_.tool = python.executable;
    plan_.commands = MakeCommands(language_.recipes.front(), values_, options_.args);
    AddPython(std::move(python));
    AddUnique(plan_.etc, MatchEtc(language_.etc));
    return {};
  }

  void AddPython(Python python) {
    AddUnique(plan_.visible, python.visible);
    AddUnique(plan_.path_dirs, python.path_dirs);
    if (!python.virtual_env.empty()) plan_.env.emplace_back("VIRTUAL_ENV", python.virtual_env);
    plan_.python = std::move(python);
  }

  // A script calls python or pip by name: it shall get the same interpreter that a Python block gets.
  Status AddPythonForShell() {
    bool named = !options_.python.empty() || !options_.venv.empty();
    bool mentioned = plan_.code.contains("python") || plan_.code.contains("pip");
    if (!named && options_.host.virtual_env.empty() && !mentioned) return {};
    auto python = ResolvePython({options_.python, options_.venv, options_.host, options_.destination});
    if (python) {
      AddPython(std::move(*python));
      AddUnique(plan_.etc, MatchEtc({"alternatives"}));
    } else if (named) {
      return std::unexpected(std::move(python.error()));
    }
    return {};
  }

  // How a proxy of that name is seen through is written with the language whose own tool it is.
  Result<Tool> Locate(const std::string& name) const {
    if (options_.destination == Destination::kHost) return FindTool(name, options_.host);
    for (const Language& other : table_.languages()) {
      if (other.ask.empty() || other.recipes.empty()) continue;
      const std::vector<std::string>& tools = other.recipes.front().tools;
      if (std::ranges::find(tools, name) != tools.end()) {
        return LocateTool(name, options_.host, {other.ask, other.ask_gives});
      }
    }
    return LocateTool(name, options_.host, {});
  }

  // False: a tool is missing or unusable, which was noted.
  bool TryRecipe(const Recipe& recipe, const std::string& name) {
    auto found = Locate(name);
    if (!found) return Missed(name, std::move(found.error()));
    std::vector<Tool> tools = {std::move(*found)};
    if (!recipe.min_version.empty()) {
      std::string label = fmt::format("{} >= {}", name, recipe.min_version);
      auto recent = HasVersion(tools[0], recipe.min_version, options_.host);
      if (!recent) return Missed(label, std::move(recent.error()));
      if (!*recent) return Missed(label, Error{ErrorCode::kNotFound, ""});
    }
    std::vector<std::pair<std::string, std::string>> needs;
    for (const std::string& need : recipe.needs) {
      auto needed = Locate(need);
      if (!needed) return Missed(need, std::move(needed.error()));
      needs.emplace_back(need, needed->program);
      tools.push_back(std::move(*needed));
    }
    values_.tool = tools[0].program;
    values_.needs = std::move(needs);
    plan_.commands = MakeCommands(Adapted(recipe), values_, options_.args);
    for (const Tool& tool : tools) {
      AddUnique(plan_.visible, tool.visible);
      AddUnique(plan_.path_dirs, tool.path_dirs);
      AddUnique(plan_.etc, tool.etc);
    }
    return true;
  }

  bool Missed(const std::string& label, Error error) {
    if (std::ranges::find(missed_, label) == missed_.end()) missed_.push_back(label);
    if (error.code != ErrorCode::kNotFound && !obstacle_) obstacle_ = std::move(error);
    return false;
  }

  Status ForTools() {
    for (const Recipe& recipe : language_.recipes) {
      for (const std::string& name : recipe.tools) {
        if (TryRecipe(recipe, name)) return {};
      }
    }
    // Something was there and could not be used: that is what must be mended.
    if (obstacle_) return std::unexpected(std::move(*obstacle_));
    return Err(ErrorCode::kNotFound, "{} cannot run here: {} not found on PATH; {}", language_.name,
               fmt::join(missed_, ", "), language_.install);
  }

  const LanguageTable& table_;
  const Language& language_;
  const PlanOptions& options_;
  Plan& plan_;
  Words values_;
  std::vector<std::string> missed_;
  std::optional<Error> obstacle_;
};

Status CheckInput(const Block& block, const PlanOptions& options) {
  if (block.code.size() > kMaxCodeBytes) {
    return Err(ErrorCode::kInvalid, "the code has {} bytes; at most {} ({} bytes) are accepted", block.code.size(),
               FormatByteSize(kMaxCodeBytes), kMaxCodeBytes);
  }
  if (block.code.contains('\0')) return Err(ErrorCode::kInvalid, "the code contains a NUL byte");
  for (const std::string& arg : options.args) {
    if (arg.contains('\0')) return Err(ErrorCode::kInvalid, "an argument of the program contains a NUL byte");
  }
  return {};
}

}  // namespace

Result<Plan> MakePlan(const LanguageTable& table, const Block& block, const PlanOptions& options) {
  TRY_VOID(CheckInput(block, options));
  TRY(const Language* language,
      Detect(table, {.language = block.language, .file_name = options.file_name, .code = block.code}));
  Plan plan;
  plan.language = language->name;
  plan.install = language->install;
  plan.save_only = language->save_only;
  if (!options.file_name.empty()) {
    TRY(plan.file_name, CheckFileName(options.file_name));
  } else if (std::optional<std::string> named = FilenameComment(*language, block.code)) {
    TRY(plan.file_name, CheckFileName(*named));
    plan.named_by_code = true;
  } else {
    plan.file_name = GeneratedFileName(*language, block.code);
    // A Java file is named after its class.
    if (!language->java_class) plan.generated_file = plan.file_name;
  }
  plan.code = block.code;
  if (!plan.save_only) TRY_VOID(Planner(table, *language, options, plan).Run());
  // A tool's prefix may hold another's.
  std::ranges::sort(plan.visible);
  std::vector<std::string> visible;
  for (std::string& dir : plan.visible) {
    bool below = std::ranges::any_of(visible, [&](const std::string& other) { return IsBelow(dir, other); });
    if (!below) visible.push_back(std::move(dir));
  }
  plan.visible = std::move(visible);
  return plan;
}

}  // namespace cella::language
