#include "language/python_answer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "language/host_path.h"
#include "language/python_environment.h"
#include "language/python_search.h"
#include "language/tool.h"
#include "language/version_managers.h"
#include "language/visible.h"

namespace cella::language {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 3;  // a shim, an environment, and its base

// -I: neither PYTHON… variables nor the current directory nor the user's packages may change the answer.
constexpr char kScript[] =
    "import json, sys\n"
    "names = ('executable', 'prefix', 'base_prefix', 'exec_prefix', 'base_exec_prefix')\n"
    "answer = {name: getattr(sys, name) for name in names}\n"
    "answer['version'] = '%d.%d.%d' % sys.version_info[:3]\n"
    "sys.stdout.write(json.dumps(answer))\n";

std::vector<std::string> Arguments() { return {"-I", "-c", kScript}; }

std::optional<PythonAnswer> FromJson(const Json& json) {
  PythonAnswer answer;
  auto text = [&](const char* name, std::string& into) {
    auto found = json.find(name);
    if (found == json.end() || !found->is_string()) return false;
    into = found->get<std::string>();
    return true;
  };
  if (!json.is_object() || !text("executable", answer.executable) || !text("version", answer.version) ||
      !text("prefix", answer.prefix) || !text("base_prefix", answer.base_prefix) ||
      !text("exec_prefix", answer.exec_prefix) || !text("base_exec_prefix", answer.base_exec_prefix)) {
    return std::nullopt;
  }
  // It becomes part of paths.
  if (!ParsePythonVersion(answer.version) || std::ranges::count(answer.version, '.') != 2) return std::nullopt;
  return answer;
}

// The program that answered may be a guest's work. What it claims becomes visible to the next guest, so it can only
// claim what the question showed it.
Result<PythonAnswer> ParseAnswer(const std::string& text, const std::string& program, const ToolQuery& query) {
  std::optional<PythonAnswer> answer = FromJson(Json::parse(text, nullptr, false));
  if (!answer) return Err(ErrorCode::kUnsupported, "'{}' did not answer as a Python 3 interpreter does", program);
  if (!answer->executable.starts_with('/')) answer->executable = program;
  for (const std::string* path :
       {&answer->executable, &answer->prefix, &answer->base_prefix, &answer->exec_prefix, &answer->base_exec_prefix}) {
    if (!IsShown(*path, query.visible)) {
      return Err(ErrorCode::kUnsupported, "'{}' reports that it uses '{}', which does not belong to its installation",
                 program, *path);
    }
  }
  return *answer;
}

}  // namespace

PythonAsker::PythonAsker(const HostEnv& host) : host_(host), answers_(host) {}

Result<PythonAnswer> PythonAsker::AskInterpreter(const std::string& path) {
  auto tool = DescribeTool(path, host_);
  // A link from a directory that cannot be shown, such as ~/bin/python to .../bin/python3.12.
  if (!tool && RealPath(path) != path) tool = DescribeTool(RealPath(path), host_);
  if (!tool) return std::unexpected(std::move(tool.error()));
  const ToolQuery query = QueryFor(*tool, Arguments());
  auto text = answers_.Ask(query);
  if (!text && text.error().message.contains("Unknown option: -I")) {
    return Err(ErrorCode::kUnsupported, "'{}' is not Python 3.4 or later", path);
  }
  if (!text) return std::unexpected(std::move(text.error()));
  return ParseAnswer(*text, tool->program, query);
}

Result<PythonAnswer> PythonAsker::AskShim(const std::string& path, int depth) {
  TRY(ProxyQuestion question, DescribeProxy(path, host_));
  ToolQuery query{
      .argv = Arguments(), .env = std::move(question.env), .visible = std::move(question.visible), .etc = {}};
  query.argv.insert(query.argv.begin(), path);
  TRY(std::string text, answers_.Ask(query, question.deciding, ToolAnswers::Refusals::kRemember));
  TRY(PythonAnswer answer, ParseAnswer(text, path, query));
  if (answer.executable == path) return answer;
  // The real one needs less than its manager, and has a state of its own.
  return Ask(answer.executable, depth + 1);
}

Result<PythonAnswer> PythonAsker::DescribeVenv(const std::string& path, const std::string& dir, int depth) {
  TRY(VenvBase base, FindVenvBase(dir, host_));
  TRY(PythonAnswer answer, Ask(base.executable, depth + 1));
  answer.read_as_data = true;
  answer.executable = path;
  answer.prefix = dir;
  answer.exec_prefix = dir;
  answer.base_executable = std::move(base.executable);
  answer.between = std::move(base.between);
  return answer;
}

Result<PythonAnswer> PythonAsker::Ask(const std::string& path, int depth) {
  if (depth > kMaxDepth) {
    return Err(ErrorCode::kUnsupported, "'{}' does not lead to an interpreter; pass one with --python PATH", path);
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || ::access(path.c_str(), X_OK) != 0) {
    return Err(ErrorCode::kNotFound, "'{}' is not an executable file", path);
  }
  if (std::string dir = VirtualEnvironmentOf(path); !dir.empty()) {
    auto answer = DescribeVenv(path, dir, depth);
    if (answer) return answer;
    return std::unexpected(std::move(answer.error()).WithContext(fmt::format("the virtual environment '{}'", dir)));
  }
  std::string prefix = DirName(DirName(path));
  if (std::optional<std::string> version = CondaPythonVersion(prefix)) {
    TRY_VOID(ResolveHostPath(prefix, host_.guest_writable));
    PythonAnswer answer;
    answer.read_as_data = true;
    answer.executable = path;
    answer.version = *version;
    answer.prefix = answer.base_prefix = answer.exec_prefix = answer.base_exec_prefix = prefix;
    return answer;
  }
  return IsShim(path) ? AskShim(path, depth) : AskInterpreter(path);
}

}  // namespace cella::language
