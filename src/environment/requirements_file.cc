#include "environment/requirements_file.h"

#include <filesystem>

#include "environment/spec_scanner.h"
#include "os/io.h"

namespace cella::environment {
namespace {

constexpr int kMaxDepth = 8;
constexpr int kMaxFiles = 64;
constexpr uint64_t kMaxFileBytes = 1 << 20;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

class Reader {
 public:
  explicit Reader(const ReadText& read) : read_(read) {}

  Status Read(const std::string& name, int depth, std::vector<Requirement>* into) {
    if (depth > kMaxDepth || ++files_ > kMaxFiles) {
      return Err(ErrorCode::kInvalid, "'{}': requirements files include each other too deeply or too often", name);
    }
    TRY(std::string text, read_(name));
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    size_t number = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t first = number + 1;
      const std::string line = LogicalLine(rest, number);
      auto taken = TakeLine(Trimmed(line), name, depth, into);
      if (!taken) {
        // An included file has said its own line.
        if (taken.error().message.contains(" line ")) return taken;
        return std::unexpected(std::move(taken.error()).WithContext(fmt::format("'{}' line {}", name, first)));
      }
    }
    return {};
  }

  RequirementsFile file;

 private:
  // Without its comment; with the lines that a backslash joins to it.
  static std::string LogicalLine(std::string_view& rest, size_t& number) {
    std::string line;
    while (!rest.empty()) {
      ++number;
      size_t end = rest.find('\n');
      std::string_view part = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (part.ends_with('\r')) part.remove_suffix(1);
      for (size_t at = part.find('#'); at != std::string_view::npos; at = part.find('#', at + 1)) {
        if (at > 0 && !IsBlank(part[at - 1])) continue;
        part = part.substr(0, at);
        break;
      }
      const bool joined = part.ends_with('\\');
      if (joined) part.remove_suffix(1);
      line += part;
      if (!joined) break;
      line += ' ';
    }
    return line;
  }

  Status TakeLine(std::string_view line, const std::string& name, int depth, std::vector<Requirement>* into) {
    if (line.empty()) return {};
    if (line.front() == '-') return TakeOption(line, name, depth, into);
    std::string_view hashes;
    if (size_t at = line.find(" --"); at != std::string_view::npos) {
      hashes = Trimmed(line.substr(at));
      line = Trimmed(line.substr(0, at));
    }
    TRY(Requirement requirement, ParseRequirement(line));
    TRY_VOID(CheckHashes(hashes));
    if (!hashes.empty() && into == &file.packages) file.pinned.push_back(requirement.text + " " + std::string(hashes));
    into->push_back(std::move(requirement));
    if (into->size() > kMaxFileSpecs) {
      return Err(ErrorCode::kInvalid, "more than {} requirements; make the file smaller", kMaxFileSpecs);
    }
    return {};
  }

  static Status CheckHashes(std::string_view hashes) {
    while (!hashes.empty()) {
      constexpr std::string_view kHash = "--hash=sha256:";
      size_t end = std::min(hashes.find(' '), hashes.size());
      std::string_view word = hashes.substr(0, end);
      std::string_view digits = word.starts_with(kHash) ? word.substr(kHash.size()) : std::string_view();
      SpecScanner in(digits);
      if (digits.size() != 64 || in.TakeWhile(IsHexDigit).size() != 64) {
        return Err(ErrorCode::kInvalid, "'{}' is not accepted behind a requirement; only --hash=sha256:… is", word);
      }
      hashes = Trimmed(hashes.substr(end));
    }
    return {};
  }

  Status TakeOption(std::string_view line, const std::string& name, int depth, std::vector<Requirement>* into) {
    for (std::string_view option : {"--requirement", "--constraint", "-r", "-c"}) {
      if (!line.starts_with(option)) continue;
      std::string_view value = line.substr(option.size());
      if (value.starts_with('=')) value.remove_prefix(1);
      value = Trimmed(value);
      std::filesystem::path path = (std::filesystem::path(name).parent_path() / value).lexically_normal();
      if (value.empty() || value.contains("://") || path.is_absolute() || path.native().starts_with("..")) {
        return Err(ErrorCode::kInvalid, "'{}' must name a file below the directory of the first one", line);
      }
      const bool constraint = option == "-c" || option == "--constraint";
      return Read(path.native(), depth + 1, constraint ? &file.constraints : into);
    }
    return Err(ErrorCode::kInvalid,
               "the option '{}' is not accepted; the operator configures the index with pip's or uv's settings",
               line.substr(0, line.find_first_of(" =")));
  }

  const ReadText& read_;
  int files_ = 0;
};

}  // namespace

Result<RequirementsFile> ParseRequirementsFile(const std::string& name, const ReadText& read) {
  Reader reader(read);
  TRY_VOID(reader.Read(name, 0, &reader.file.packages));
  if (!reader.file.pinned.empty() && reader.file.pinned.size() != reader.file.packages.size()) {
    return Err(ErrorCode::kInvalid, "'{}' has hashes for some of its requirements: give them for all, or for none",
               name);
  }
  return std::move(reader.file);
}

Result<RequirementsFile> ReadRequirementsFile(const std::string& path) {
  const std::filesystem::path file(path);
  const std::filesystem::path directory = file.parent_path();
  auto read = [&](const std::string& name) { return os::ReadFile((directory / name).native(), kMaxFileBytes); };
  return ParseRequirementsFile(file.filename().native(), read);
}

}  // namespace cella::environment
