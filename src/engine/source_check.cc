#include "engine/source_check.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "confine/ask_program.h"
#include "engine/installation.h"
#include "language/host_env.h"
#include "language/python.h"
#include "language/tool_query.h"

namespace cella::engine {
namespace {

// The answer has at most 64 KiB, and the arguments of a program 128 KiB each.
constexpr size_t kMostSources = 12;
constexpr size_t kMostBytes = size_t{128} << 10;
constexpr JsonLimits kAnswerLimits = {.bytes = size_t{64} << 10, .depth = 4, .nodes = 100};

// compile() with this flag makes a syntax tree and runs nothing.
constexpr const char* kProgram = R"(
import ast, json, os, sys, warnings
warnings.simplefilter("ignore")
def look(source):
    try:
        tree = ast.parse(os.fsencode(source).decode("utf-8"))
        run = [each for each in tree.body if isinstance(each, ast.AsyncFunctionDef) and each.name == "run"]
        if not run:
            return ["it has no 'async def run'", ""]
        return ["", (ast.get_docstring(tree) or ast.get_docstring(run[-1]) or "").partition("\n\n")[0][:300]]
    except SyntaxError as error:
        return ["it does not parse: line %s: %s" % (error.lineno, str(error.msg)[:200]), ""]
    except (ValueError, RecursionError, MemoryError) as error:
        return ["it does not parse: %s" % type(error).__name__, ""]
print(json.dumps([look(each) for each in sys.argv[1:]]))
)";

Result<std::vector<storage::SourceFacts>> Ask(const language::HostEnv& host, const language::Python& python,
                                              std::span<const std::string> sources) {
  language::ToolQuery query;
  query.argv = {python.executable, "-I", "-S", "-c", kProgram};
  query.argv.insert(query.argv.end(), sources.begin(), sources.end());
  query.env = language::CleanEnvironment(python.path_dirs);
  query.visible = python.visible;
  TRY(const std::string text, host.asker->AskProgram(query));
  TRY(const nlohmann::json answer, ReadJson(text, kAnswerLimits));
  std::vector<storage::SourceFacts> facts;
  for (const auto& each : answer) {
    const bool sound = each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string();
    if (sound) facts.push_back({each[0].get<std::string>(), each[1].get<std::string>()});
  }
  if (facts.size() != sources.size()) return Err(ErrorCode::kInternal, "'{}' did not answer", python.executable);
  return facts;
}

// A source at which Python itself fails is none.
Result<std::vector<storage::SourceFacts>> AskInParts(const language::HostEnv& host, const language::Python& python,
                                                     std::span<const std::string> sources) {
  auto facts = Ask(host, python, sources);
  // Also on a busy machine; only what Python says of a source is kept.
  if (facts || facts.error().code != ErrorCode::kUnsupported) return facts;
  if (sources.size() == 1) {
    return std::vector<storage::SourceFacts>{{"it does not parse: " + facts.error().message, ""}};
  }
  TRY(std::vector<storage::SourceFacts> all, AskInParts(host, python, sources.first(sources.size() / 2)));
  TRY(std::vector<storage::SourceFacts> rest, AskInParts(host, python, sources.subspan(sources.size() / 2)));
  all.insert(all.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  return all;
}

}  // namespace

storage::CheckSources MakeSourceCheck(SourceCheckOptions options) {
  language::HostEnv host = language::HostEnv::FromProcess(options.state_dir);
  host.guest_writable = std::move(options.guest_writable);
  return [host = std::move(host), wanted = std::move(options.python), launcher = std::move(options.launcher)](
             std::span<const std::string> sources) mutable -> Result<std::vector<storage::SourceFacts>> {
    language::HostEnv asking = host;
    std::string found;
    if (launcher.empty()) {
      TRY(Installation installation, FindInstallation());
      found = std::move(installation.launcher);
    }
    asking.asker = confine::MakeProgramAsker(launcher.empty() ? found : launcher);
    auto python = language::ResolvePython({.python = wanted, .venv = {}, .host = asking});
    if (!python) return std::unexpected(std::move(python.error()).WithContext("workflows are read with Python"));
    std::vector<storage::SourceFacts> facts;
    while (facts.size() < sources.size()) {
      size_t count = 0, bytes = 0;
      for (auto rest = sources.subspan(facts.size()); count < std::min(rest.size(), kMostSources); ++count) {
        bytes += rest[count].size();
        if (count > 0 && bytes > kMostBytes) break;
      }
      TRY(std::vector<storage::SourceFacts> part, AskInParts(asking, *python, sources.subspan(facts.size(), count)));
      facts.insert(facts.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    }
    return facts;
  };
}

}  // namespace cella::engine
