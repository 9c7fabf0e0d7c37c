#include "language/tool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "language/tool_answers.h"
#include "language/version_managers.h"
#include "language/visible.h"

namespace cella::language {
namespace {

bool IsExecutableFile(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// A snap cannot be started in a jail, but its layout is known.
Result<std::string> SeeThroughSnap(std::string_view name) {
  std::string found = RealPath(fmt::format("/snap/{0}/current/bin/{0}", name));
  if (!IsBelow(found, "/snap") || !IsExecutableFile(found)) {
    return Err(ErrorCode::kUnsupported, "the snap of '{}' cannot be seen through; install it another way", name);
  }
  return found;
}

Result<std::string> SeeThrough(std::string_view name, const std::string& program, const HostEnv& host,
                               const AskCommand& ask) {
  if (BaseName(RealPath(program)) == "snap") return SeeThroughSnap(name);
  if (ask.argv.empty()) {
    return Err(ErrorCode::kUnsupported,
               "'{}' only stands for the real program, which cannot be asked for; put the directory of the real one "
               "in front of PATH",
               program);
  }
  TRY(ProxyQuestion question, DescribeProxy(program, host));
  ToolQuery query{.argv = {}, .env = std::move(question.env), .visible = std::move(question.visible), .etc = {}};
  for (const std::string& word : ask.argv) query.argv.push_back(word == "{tool}" ? program : word);
  TRY(std::string answer, ToolAnswers(host).Ask(query, question.deciding, ToolAnswers::Refusals::kRemember));
  answer.erase(answer.find_last_not_of(" \t\r\n") + 1);
  std::string found = ask.gives == AskGives::kPrefix ? answer + "/bin/" + std::string(name) : answer;
  // What it could not see it does not stand for.
  if (!IsExecutableFile(found) || !IsShown(found, query.visible)) {
    return Err(ErrorCode::kUnsupported, "'{}' answered '{}', where no program is", program, answer);
  }
  return found;
}

}  // namespace

std::vector<std::string> FindOnPath(std::string_view name, std::string_view path) {
  std::vector<std::string> found;
  while (!path.empty()) {
    size_t colon = path.find(':');
    std::string_view dir = path.substr(0, colon);
    path = colon == std::string_view::npos ? std::string_view() : path.substr(colon + 1);
    if (!dir.starts_with('/')) continue;
    std::string candidate = fmt::format("{}{}{}", dir, dir.ends_with('/') ? "" : "/", name);
    if (IsExecutableFile(candidate) && std::ranges::find(found, candidate) == found.end()) {
      found.push_back(std::move(candidate));
    }
  }
  return found;
}

Result<Tool> DescribeTool(const std::string& program, const HostEnv& host) {
  Tool tool;
  tool.program = program;
  std::vector<std::string> chain = LinkChain(program);
  tool.real = chain.back();
  auto cover = [&](const std::vector<std::string>& paths) -> Status {
    VisibleSet visible(host.home);
    tool.etc.clear();
    for (const std::string& path : paths) {
      if (IsBelow(path, "/etc")) {
        std::string_view entry = std::string_view(path).substr(5);
        tool.etc.emplace_back(entry.substr(0, entry.find('/')));
      } else {
        TRY_VOID(visible.Add(PrefixOf(path)));
      }
    }
    tool.visible = visible.Take();
    return {};
  };
  Status covered = cover(chain);
  // A link in a directory that cannot be shown (~/bin) is no obstacle when the program itself lies elsewhere; but not
  // under another name, by which it might behave differently.
  if (!covered && chain.size() > 1 && BaseName(tool.real) == BaseName(program)) {
    tool.program = tool.real;
    covered = cover({tool.real});
  }
  if (!covered) return std::unexpected(std::move(covered.error()).WithContext(fmt::format("'{}'", program)));
  if (std::string dir = DirName(tool.program); !StandardBinDirectory(dir)) tool.path_dirs.push_back(std::move(dir));
  return tool;
}

Result<Tool> FindTool(std::string_view name, const HostEnv& host) {
  std::vector<std::string> found = FindOnPath(name, host.path);
  if (found.empty()) return Err(ErrorCode::kNotFound, "'{}' is not on PATH", name);
  Tool tool{.program = found.front(), .real = RealPath(found.front()), .visible = {}, .etc = {}, .path_dirs = {}};
  if (std::string dir = DirName(tool.program); !StandardBinDirectory(dir)) tool.path_dirs.push_back(std::move(dir));
  return tool;
}

Result<Tool> LocateTool(std::string_view name, const HostEnv& host, const AskCommand& ask) {
  std::optional<Error> obstacle;
  for (const std::string& program : FindOnPath(name, host.path)) {
    Result<Tool> tool = [&]() -> Result<Tool> {
      if (!IsProxy(name, program)) return DescribeTool(program, host);
      TRY(std::string real, SeeThrough(name, program, host, ask));
      return DescribeTool(real, host);
    }();
    if (tool) return tool;
    if (!obstacle) obstacle = std::move(tool.error());
  }
  if (obstacle) return std::unexpected(std::move(*obstacle));
  return Err(ErrorCode::kNotFound, "'{}' is not on PATH", name);
}

ToolQuery QueryFor(const Tool& tool, const std::vector<std::string>& arguments) {
  ToolQuery query{
      .argv = {tool.program}, .env = CleanEnvironment(tool.path_dirs), .visible = tool.visible, .etc = tool.etc};
  query.argv.insert(query.argv.end(), arguments.begin(), arguments.end());
  return query;
}

Result<bool> HasVersion(const Tool& tool, std::string_view wanted, const HostEnv& host) {
  TRY(std::string answer, ToolAnswers(host).Ask(QueryFor(tool, {"--version"})));
  size_t start = answer.find_first_of("0123456789");
  if (start == std::string::npos) return false;
  size_t end = answer.find_first_not_of("0123456789.", start);
  return CompareVersions(std::string_view(answer).substr(start, end - start), wanted) >= 0;
}

int CompareVersions(std::string_view a, std::string_view b) {
  auto take = [](std::string_view& text) {
    unsigned long number = 0;
    size_t at = 0;
    while (at < text.size() && at < 9 && text[at] >= '0' && text[at] <= '9') {
      number = number * 10 + static_cast<unsigned long>(text[at++] - '0');
    }
    size_t dot = text.find('.');
    text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
    return number;
  };
  while (!a.empty() || !b.empty()) {
    unsigned long x = take(a);
    unsigned long y = take(b);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

}  // namespace cella::language
