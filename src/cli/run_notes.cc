#include "cli/run_notes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "policy/keys.h"

namespace cella::cli {
namespace {

constexpr size_t kKept = 4096;
constexpr size_t kNamesShown = 3;

// The guest wrote it, and it goes to a terminal.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
}

// "'input.csv'" behind `at`, as Python and Node write it.
std::optional<std::string> QuotedBehind(std::string_view line, size_t at) {
  const size_t open = line.find('\'', at);
  if (open == std::string_view::npos) return std::nullopt;
  const size_t close = line.find('\'', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(open + 1, close - open - 1));
}

// "cat: input.csv: No such file or directory", as programs of the system write it.
std::optional<std::string> WordBefore(std::string_view line, size_t at) {
  std::string_view before = line.substr(0, at);
  if (!before.ends_with(": ")) return std::nullopt;
  before.remove_suffix(2);
  const size_t space = before.find_last_of(" '\"");
  return std::string(space == std::string_view::npos ? before : before.substr(space + 1));
}

std::optional<std::string> MissingFile(std::string_view line) {
  constexpr std::string_view kSaid = "o such file or directory";  // with a capital letter or without
  const size_t at = line.find(kSaid);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  auto name = QuotedBehind(line, at + kSaid.size());
  return name ? name : WordBefore(line, at - 1);
}

// "numpy", of Python's "No module named 'numpy.linalg'".
std::optional<std::string> MissingModule(std::string_view text) {
  constexpr std::string_view kSaid = "ModuleNotFoundError: No module named ";
  const size_t at = text.find(kSaid);
  if (at == std::string_view::npos) return std::nullopt;
  auto name = QuotedBehind(text, at + kSaid.size());
  if (!name) return std::nullopt;
  name->resize(std::min(name->find('.'), name->size()));
  return name;
}

std::string AdviceOnFile(const std::string& name) {
  return fmt::format(
      "cella: '{0}' is here, but the code does not see this directory: --file {0} copies it in, --workdir . gives the "
      "code this directory\n",
      name);
}

bool TellsOfNoNetwork(std::string_view text) {
  constexpr std::array<std::string_view, 8> kSaid = {"Network is unreachable",
                                                     "Connection refused",
                                                     "Temporary failure in name resolution",
                                                     "ENETUNREACH",
                                                     "ECONNREFUSED",
                                                     "EAI_AGAIN",
                                                     "Could not resolve host",
                                                     "Name or service not known"};
  return std::ranges::any_of(kSaid, [&](std::string_view said) { return text.contains(said); });
}

}  // namespace

void RunNotes::See(Stream stream, std::string_view bytes) {
  if (stream != Stream::kStderr) return;
  stderr_end_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kKept)));
  if (stderr_end_.size() > kKept) stderr_end_.erase(0, stderr_end_.size() - kKept);
}

std::string RunNotes::Advice(ExecutorKind executor, Network network) const {
  if (!Confines(executor)) return {};  // it sees what its caller sees
  std::string_view rest = stderr_end_;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    auto name = MissingFile(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (name && name->starts_with("./")) name->erase(0, 2);
    if (!name || !IsPlainName(*name) || name->starts_with('/') || name->contains("..")) continue;
    if (access(name->c_str(), F_OK) != 0) continue;
    return AdviceOnFile(*name);
  }
  if (auto module = MissingModule(stderr_end_); module && IsPlainName(*module) && !module->contains('/')) {
    if (access((*module + ".py").c_str(), F_OK) == 0) return AdviceOnFile(*module + ".py");
    return "cella: --with PACKAGE installs a package before the code runs, --venv DIR uses a virtual environment\n";
  }
  if (network == Network::kNone && TellsOfNoNetwork(stderr_end_)) {
    return policy::Takes(executor, "container.image")
               ? "cella: the code has no network; --network bridge gives it the engine's\n"
               : "cella: the code has no network; --network host gives it the network of this machine\n";
  }
  return {};
}

std::string DiscardedFiles(const std::vector<FileChange>& files) {
  std::string names;
  size_t count = 0;
  for (const FileChange& file : files) {
    if (file.kind == FileChange::Kind::kDeleted) continue;
    if (++count > kNamesShown) continue;
    names += names.empty() ? "" : ", ";
    names += IsPlainName(file.path) ? file.path : "?";
  }
  if (count == 0) return {};
  if (count > kNamesShown) names += fmt::format(" and {} more", count - kNamesShown);
  return fmt::format("{} file{} discarded: {} (--out DIR keeps {})", count, count == 1 ? "" : "s", names,
                     count == 1 ? "it" : "them");
}

}  // namespace cella::cli
