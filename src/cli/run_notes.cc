#include "cli/run_notes.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/repl/escape_filter.h"
#include "policy/keys.h"

namespace cella::cli {
namespace {

constexpr size_t kKept = 4096;
constexpr size_t kNamesShown = 3;

// The guest wrote it, and it goes to a terminal.
bool IsPlainName(std::string_view name) { return !name.empty() && name.size() <= 255 && PlainText(name) == name; }

// Of a shell's command line that the caller may copy.
std::string Quoted(std::string_view name) {
  const bool bare = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-' || c == ':';
  });
  return bare ? std::string(name) : fmt::format("'{}'", name);
}

// The text between the first of `open` and the next of `close`; empty, if there is none.
std::string_view Between(std::string_view text, std::string_view open, std::string_view close) {
  const size_t begin = text.find(open);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + open.size());
  return text.substr(0, text.find(close));
}

// The same for the last pair.
std::string_view LastBetween(std::string_view text, char open, char close) {
  const size_t end = text.rfind(close);
  if (end == std::string_view::npos || end == 0) return {};
  const size_t begin = text.rfind(open, end - 1);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin + 1, end - begin - 1);
}

std::string_view Behind(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

// What a message about a missing file may call it.
std::vector<std::string_view> NamesOfMissingFile(std::string_view line) {
  constexpr std::string_view kSaid = "o such file";  // with a capital letter or without, and "or directory" or not
  const size_t at = line.find(kSaid);
  if (at == std::string_view::npos || at == 0) return {};
  const std::string_view behind = line.substr(at + kSaid.size());
  std::string_view before = line.substr(0, at - 1);
  std::vector<std::string_view> names = {
      Between(behind, "'", "'"),        // Python, Node
      Between(behind, " - ", " ("),     // Ruby
      LastBetween(before, '\'', '\''),  // R, programs of the system, for names with spaces
      LastBetween(before, '(', ')'),    // PHP
  };
  // "cat: NAME: ", "cannot open NAME: ", and Java's "FileNotFoundException: NAME (".
  if (before.ends_with(": ") || before.ends_with(" (")) {
    before.remove_suffix(2);
    names.push_back(Behind(before, ": "));
    names.push_back(Behind(before, " "));
  }
  return names;
}

// "numpy", of Python's "No module named 'numpy.linalg'".
std::optional<std::string> MissingModule(std::string_view text) {
  constexpr std::string_view kSaid = "ModuleNotFoundError: No module named ";
  const size_t at = text.find(kSaid);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view name = Between(text.substr(at + kSaid.size()), "'", "'");
  name = name.substr(0, name.find('.'));
  return name.empty() ? std::nullopt : std::optional<std::string>(name);
}

// A file or directory of the caller's, as the code names it.
std::optional<std::string> AdviceOnFile(std::string_view said) {
  if (said.starts_with("./")) said.remove_prefix(2);
  const std::string name(said);
  // What the shell, or --file with its colon, would take for something else is not named.
  if (!IsPlainName(name) || name.find_first_of("'\"\\:") != std::string::npos) return std::nullopt;
  if (name.starts_with('/') || name.starts_with('-') || name.contains("..")) return std::nullopt;
  struct stat info;
  if (stat(name.c_str(), &info) != 0) return std::nullopt;
  // Without a name of its own a file is copied to the top.
  const std::string file = name.contains('/') ? name + ":" + name : name;
  const std::string copy = S_ISREG(info.st_mode) ? fmt::format("--file {} copies it in, ", Quoted(file)) : "";
  return fmt::format(
      "cella: '{}' is here, but the code does not see this directory: {}--workdir . gives the code this directory\n",
      name, copy);
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
    for (std::string_view said : NamesOfMissingFile(rest.substr(0, end))) {
      if (auto advice = AdviceOnFile(said)) return *advice;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (auto module = MissingModule(stderr_end_); module && !module->contains('/')) {
    for (const char* form : {".py", "/__init__.py"}) {
      if (access((*module + form).c_str(), F_OK) != 0) continue;
      if (auto advice = AdviceOnFile(form[0] == '.' ? *module + form : *module)) return *advice;
    }
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
