#include "language/tool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "language/ask.h"
#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

bool IsExecutableFile(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// The tree that a program belongs to: what holds its bin directory, else the directory it lies in.
std::string PrefixOf(const std::string& program) {
  std::string dir = DirName(program);
  std::string_view last = BaseName(dir);
  return last == "bin" || last == "sbin" ? DirName(dir) : dir;
}

bool InShimsDirectory(const std::string& program) { return BaseName(DirName(program)) == "shims"; }

// One program that stands for many, and finds its place by the name it is called by: rustup, a snap.
bool IsProxy(std::string_view name, const std::string& program, const std::string& real) {
  if (InShimsDirectory(program)) return true;
  std::string_view real_name = BaseName(real);
  return real_name != name && (real_name == "rustup" || real_name == "snap" || real_name == "mise");
}

Result<std::string> SeeThrough(std::string_view name, const std::string& program, const HostEnv& host,
                               const AskCommand& ask) {
  if (ask.argv.empty()) {
    return Err(ErrorCode::kUnsupported,
               "'{}' only stands for the real program, which cannot be asked for; put the directory of the real one "
               "in front of PATH",
               program);
  }
  std::vector<std::string> argv;
  for (const std::string& word : ask.argv) argv.push_back(word == "{tool}" ? program : word);
  TRY(std::string answer, Ask(QuestionFor(host, std::move(argv))));
  answer.erase(answer.find_last_not_of(" \t\r\n") + 1);
  std::string found = ask.gives == AskGives::kPrefix ? answer + "/bin/" + std::string(name) : answer;
  if (!found.starts_with('/') || !IsExecutableFile(found)) {
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

std::vector<std::string> FindOnPath(std::string_view name, const HostEnv& host) {
  std::vector<std::string> found = FindOnPath(name, host.path);
  std::erase_if(found, [&](const std::string& each) { return LiesBelowAny(DirName(each), host.guest_writable); });
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

Result<Tool> LocateTool(std::string_view name, const HostEnv& host, const AskCommand& ask) {
  std::optional<Error> obstacle;
  for (const std::string& program : FindOnPath(name, host)) {
    Result<Tool> tool = [&]() -> Result<Tool> {
      if (!IsProxy(name, program, RealPath(program))) return DescribeTool(program, host);
      TRY(std::string real, SeeThrough(name, program, host, ask));
      return DescribeTool(real, host);
    }();
    if (tool) return tool;
    if (!obstacle) obstacle = std::move(tool.error());
  }
  if (obstacle) return std::unexpected(std::move(*obstacle));
  return Err(ErrorCode::kNotFound, "'{}' is not on PATH", name);
}

Result<bool> HasVersion(const std::string& program, std::string_view wanted, const HostEnv& host) {
  TRY(std::string answer, Ask(QuestionFor(host, {program, "--version"})));
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
