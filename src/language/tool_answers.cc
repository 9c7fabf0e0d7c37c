#include "language/tool_answers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/scope_exit.h"
#include "base/sha256.h"
#include "base/unique_fd.h"
#include "language/host_path.h"
#include "language/own_directory.h"
#include "language/visible.h"
#include "os/io.h"

namespace cella::language {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxEntries = 64;
constexpr size_t kMaxFile = 256 * 1024;
constexpr char kFileName[] = "answers.json";
// Also part of every key: a new kind of answer makes the old ones unknown.
constexpr std::string_view kFormat = "3";

// Of the link itself. A file's change time cannot be set, so a file that was exchanged never looks like the old one.
void AddIdentity(const std::string& path, std::string& key) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) info = {};
  key += fmt::format("{}|{}|{}|{}.{}|{}", path, info.st_dev, info.st_ino, info.st_ctim.tv_sec, info.st_ctim.tv_nsec,
                     info.st_size);
  key += '\0';
}

std::string KeyOf(const ToolQuery& query, const std::vector<std::string>& deciding) {
  std::string key(kFormat);
  for (const auto* words : {&query.argv, &query.env, &query.visible, &query.etc}) {
    key += fmt::format("{}", words->size());
    key += '\0';
    for (const std::string& word : *words) {
      key += word;
      key += '\0';
    }
  }
  for (const std::string& path : LinkChain(query.argv[0])) AddIdentity(path, key);
  for (const std::string& path : deciding) AddIdentity(path, key);
  return Sha256Hex(key);
}

// Every entry is one line that opens with this, so that it is found without parsing the others.
std::string LineStart(const std::string& key) { return fmt::format("{{\"key\":\"{}\"", key); }

std::string EntryLine(const std::string& key, const Json& rest) {
  return LineStart(key) + "," + rest.dump(-1, ' ', true, Json::error_handler_t::replace).substr(1);
}

// The directory of the file. Empty: there is none, guests may write to it, or it is not ours alone.
UniqueFd OpenDirectory(const HostEnv& host, Missing missing) {
  if (LiesBelowAny(host.cache_dir, host.guest_writable)) return {};
  return OpenOwnDirectory(host.cache_dir, missing);
}

// All or nothing: readers see the old file or the new one. Failing is not an error: the next start asks again.
void ReplaceFile(const HostEnv& host, const std::string& text) {
  UniqueFd dir = OpenDirectory(host, Missing::kIsMade);
  if (!dir) return;
  std::string temporary = fmt::format("{}.{}", kFileName, RandomHex(8));
  UniqueFd fd(::openat(dir.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return;
  ScopeExit remove([&] { (void)::unlinkat(dir.get(), temporary.c_str(), 0); });
  if (!os::WriteAll(fd.get(), text)) return;
  if (::renameat(dir.get(), temporary.c_str(), dir.get(), kFileName) == 0) remove.Release();
}

bool IsExecutableFile(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

ToolAnswers::ToolAnswers(const HostEnv& host) : host_(host) {}

void ToolAnswers::Load() {
  loaded_ = true;
  UniqueFd dir = OpenDirectory(host_, Missing::kIsLeft);
  if (!dir) return;
  UniqueFd fd(::openat(dir.get(), kFileName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || !IsOursAlone(info)) return;
  if (auto text = os::ReadFd(fd.get(), kMaxFile)) text_ = std::move(*text);
}

std::optional<Result<std::string>> ToolAnswers::Recall(const std::string& key) {
  if (!loaded_) Load();
  size_t start = text_.find(LineStart(key));
  if (start == std::string::npos) return std::nullopt;
  std::string_view line = std::string_view(text_).substr(start, text_.find('\n', start) - start);
  if (line.ends_with(',')) line.remove_suffix(1);
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (auto refused = json.find("refused"); refused != json.end() && refused->is_string()) {
    return Err(ErrorCode::kUnsupported, "{}", refused->get<std::string>());
  }
  auto answer = json.find("answer");
  if (answer == json.end() || !answer->is_string()) return std::nullopt;
  return answer->get<std::string>();
}

void ToolAnswers::Remember(const std::string& key, const std::string& path, const Result<std::string>& answer) {
  // Another process may have added to it meanwhile; the last of two writers at the same moment wins.
  Load();
  std::vector<std::string> lines = {EntryLine(key, answer ? Json{{"path", path}, {"answer", *answer}}
                                                          : Json{{"path", path}, {"refused", answer.error().message}})};
  size_t size = lines[0].size();
  Json old = Json::parse(text_, nullptr, false);
  if (old.is_object() && old.contains("answers") && old["answers"].is_array()) {
    for (const Json& entry : old["answers"]) {
      if (!entry.is_object() || !entry.contains("key") || !entry["key"].is_string() || entry["key"] == key) continue;
      Json rest = entry;
      rest.erase("key");
      std::string line = EntryLine(entry["key"].get<std::string>(), rest);
      size += line.size() + 2;
      if (lines.size() >= kMaxEntries || size > kMaxFile / 2) break;
      lines.push_back(std::move(line));
    }
  }
  text_ = fmt::format("{{\"format\":{},\"answers\":[\n{}\n]}}\n", kFormat, fmt::join(lines, ",\n"));
  ReplaceFile(host_, text_);
}

Result<std::string> ToolAnswers::Ask(const ToolQuery& query, const std::vector<std::string>& deciding,
                                     Refusals refusals) {
  const std::string& path = query.argv[0];
  if (!IsExecutableFile(path)) return Err(ErrorCode::kNotFound, "'{}' is not an executable file", path);
  const std::string key = KeyOf(query, deciding);
  if (auto known = Recall(key)) return *known;
  if (!host_.asker) return Err(ErrorCode::kUnsupported, "'{}' cannot be asked: cella-launch was not found", path);
  Result<std::string> answer = host_.asker->AskProgram(query);
  const bool refused = !answer && answer.error().code == ErrorCode::kUnsupported && refusals == Refusals::kRemember;
  // A file that was exchanged meanwhile is asked again the next time.
  if ((answer || refused) && KeyOf(query, deciding) == key) Remember(key, path, answer);
  return answer;
}

}  // namespace cella::language
