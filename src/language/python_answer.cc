#include "language/python_answer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/scope_exit.h"
#include "base/sha256.h"
#include "base/unique_fd.h"
#include "language/ask.h"
#include "language/filename.h"
#include "language/host_path.h"
#include "language/host_program.h"
#include "language/python_environment.h"
#include "language/python_search.h"
#include "language/visible.h"

namespace cella::language {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxEntries = 64;
constexpr size_t kMaxCacheBytes = 256 * 1024;
constexpr char kCacheName[] = "pythons.json";
// Also part of every key: a new kind of answer makes the old ones unknown.
constexpr std::string_view kFormat = "2";

// -I: neither PYTHON… variables nor the current directory nor the user's packages may change the answer.
constexpr char kScript[] =
    "import json, sys\n"
    "names = ('executable', 'prefix', 'base_prefix', 'exec_prefix', 'base_exec_prefix')\n"
    "answer = {name: getattr(sys, name) for name in names}\n"
    "answer['version'] = '%d.%d.%d' % sys.version_info[:3]\n"
    "sys.stdout.write(json.dumps(answer))\n";

int64_t Mtime(const struct stat& info) { return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec; }

// "path@mtime", or "" when there is nothing.
std::string Stamp(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{}@{}", path, Mtime(info));
}

// The nearest file, upwards, by which version managers choose.
std::string NearestVersionFile(const std::string& cwd) {
  if (!cwd.starts_with('/')) return {};
  for (std::string dir = cwd;; dir = DirName(dir)) {
    for (const char* name : {"/.python-version", "/.tool-versions", "/mise.toml", "/.mise.toml"}) {
      if (std::string stamp = Stamp(dir == "/" ? name : dir + name); !stamp.empty()) return stamp;
    }
    if (dir == "/") return {};
  }
}

// What decides which interpreter a shim starts.
std::string ShimState(const HostEnv& host) {
  std::string root(host.Get("PYENV_ROOT"));
  if (root.empty()) root = host.home + "/.pyenv";
  return fmt::format("|{}|{}|{}|{}|{}|{}|{}|{}|{}", host.Get("PYENV_VERSION"), host.Get("ASDF_PYTHON_VERSION"),
                     host.Get("MISE_PYTHON_VERSION"), Stamp(root + "/version"), Stamp(root + "/versions"),
                     NearestVersionFile(host.cwd), Stamp(host.home + "/.tool-versions"), host.path,
                     host.DirectoryForAsking() == host.cwd);
}

// The key of a path in its present state; "" when it is no executable file.
std::string KeyOf(const std::string& path, const HostEnv& host) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || ::access(path.c_str(), X_OK) != 0) return {};
  std::string state = fmt::format("{}|{}|{}|{}|{}", kFormat, path, Mtime(info), info.st_size, info.st_ino);
  if (IsShim(path)) state += ShimState(host);
  return Sha256Hex(state);
}

// Every entry is one line that opens with this, so that it is found without parsing the others.
std::string LineStart(const std::string& key) { return fmt::format("{{\"key\":\"{}\"", key); }

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
  if (auto mtime = json.find("mtime"); mtime != json.end() && mtime->is_number_integer()) answer.mtime = *mtime;
  return answer;
}

std::string EntryLine(const std::string& key, const std::string& path, const Result<PythonAnswer>& answer) {
  Json json = {{"path", path}};
  if (answer) {
    json["executable"] = answer->executable;
    json["version"] = answer->version;
    json["prefix"] = answer->prefix;
    json["base_prefix"] = answer->base_prefix;
    json["exec_prefix"] = answer->exec_prefix;
    json["base_exec_prefix"] = answer->base_exec_prefix;
    json["mtime"] = answer->mtime;
  } else {
    json["refused"] = answer.error().message;
  }
  std::string rest = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return LineStart(key) + "," + rest.substr(1);
}

Result<PythonAnswer> AskNow(const std::string& path, const HostEnv& host) {
  auto text = language::Ask(QuestionFor(host, {path, "-I", "-c", kScript}));
  if (!text && text.error().message.contains("Unknown option: -I")) {
    return Err(ErrorCode::kUnsupported, "'{}' is not Python 3.4 or later", path);
  }
  if (!text) return std::unexpected(std::move(text.error()));
  std::optional<PythonAnswer> answer = FromJson(Json::parse(*text, nullptr, false));
  if (!answer) return Err(ErrorCode::kUnsupported, "'{}' did not answer as a Python 3 interpreter does", path);
  if (!answer->executable.starts_with('/')) answer->executable = path;
  struct stat info{};
  if (::stat(answer->executable.c_str(), &info) != 0) return SysErr(errno, "stat '{}'", answer->executable);
  answer->mtime = Mtime(info);
  return *answer;
}

// Ours, and nobody else may have written it: its paths end up as mounts.
bool Trusted(const struct stat& info) { return info.st_uid == ::geteuid() && (info.st_mode & 022) == 0; }

bool MakeDirectories(const std::string& dir) {
  for (size_t slash = dir.find('/', 1);; slash = dir.find('/', slash + 1)) {
    std::string part = dir.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return false;
    if (slash == std::string::npos) return true;
  }
}

// It lies where the system, the user's version managers or the user's PATH have their programs. Literally: a link from
// elsewhere to there may be changed at any moment.
bool Vouched(const std::string& interpreter, const HostEnv& host) {
  if (AlwaysVisible(interpreter) || IsBelow(interpreter, "/nix/store")) return true;
  for (const std::string& root : PythonRoots(host)) {
    std::vector<std::string> names = NamesOf(root);
    if (std::ranges::any_of(names, [&](const std::string& name) { return IsBelow(interpreter, name); })) return true;
  }
  for (std::string_view rest = host.path; !rest.empty();) {
    size_t colon = rest.find(':');
    std::vector<std::string> names = NamesOf(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (std::ranges::find(names, DirName(interpreter)) != names.end()) return true;
  }
  return false;
}

// All or nothing: readers see the old file or the new one. Failing is not an error: the next start asks again.
void ReplaceFile(const std::string& dir, const std::string& text) {
  if (!MakeDirectories(dir)) return;
  // Below sudo the cache may be another user's: leave no file of ours there.
  struct stat info{};
  if (::stat(dir.c_str(), &info) != 0 || !Trusted(info)) return;
  std::string target = dir + "/" + kCacheName;
  std::string temporary = target + "." + RandomHex(8);
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return;
  ScopeExit remove([&] { (void)::unlink(temporary.c_str()); });
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return;
  if (::rename(temporary.c_str(), target.c_str()) == 0) remove.Release();
}

}  // namespace

bool IsShim(const std::string& path) {
  if (BaseName(DirName(path)) == "shims") return true;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char start[2] = {};
  return fd && ::read(fd.get(), start, sizeof(start)) == 2 && start[0] == '#' && start[1] == '!';
}

PythonAsker::PythonAsker(const HostEnv& host)
    : host_(host), cache_dir_(LiesBelowAny(host.cache_dir, host.guest_writable) ? "" : host.cache_dir) {}

void PythonAsker::LoadCache() {
  loaded_ = true;
  if (!cache_dir_.starts_with('/')) return;
  UniqueFd fd(::open((cache_dir_ + "/" + kCacheName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || !Trusted(info)) return;
  if (info.st_size <= 0 || static_cast<size_t>(info.st_size) > kMaxCacheBytes) return;
  std::string text(static_cast<size_t>(info.st_size), '\0');
  ssize_t count = ::read(fd.get(), text.data(), text.size());
  if (count == static_cast<ssize_t>(text.size())) cache_ = std::move(text);
}

std::optional<Result<PythonAnswer>> PythonAsker::Recall(const std::string& key) {
  if (!loaded_) LoadCache();
  size_t start = cache_.find(LineStart(key));
  if (start == std::string::npos) return std::nullopt;
  std::string_view line = std::string_view(cache_).substr(start, cache_.find('\n', start) - start);
  if (line.ends_with(',')) line.remove_suffix(1);
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (auto refused = json.find("refused"); refused != json.end() && refused->is_string()) {
    return Err(ErrorCode::kUnsupported, "{}", refused->get<std::string>());
  }
  std::optional<PythonAnswer> answer = FromJson(json);
  struct stat info{};
  if (!answer || ::stat(answer->executable.c_str(), &info) != 0 || Mtime(info) != answer->mtime) return std::nullopt;
  return *answer;
}

void PythonAsker::Remember(const std::string& key, const std::string& path, const Result<PythonAnswer>& answer) {
  if (!cache_dir_.starts_with('/')) return;
  // Another process may have added to it meanwhile; the last of two writers at the same moment wins.
  LoadCache();
  std::vector<std::string> lines = {EntryLine(key, path, answer)};
  Json old = Json::parse(cache_, nullptr, false);
  size_t size = lines[0].size();
  if (old.is_object() && old.contains("pythons") && old["pythons"].is_array()) {
    for (const Json& entry : old["pythons"]) {
      // One path has one present state: its older entries go, except that a shim has one per place it is called from.
      if (!entry.is_object() || !entry.contains("key") || !entry["key"].is_string() || entry["key"] == key) continue;
      if (entry.contains("path") && entry["path"] == path && !IsShim(path)) continue;
      Json rest = entry;
      rest.erase("key");
      std::string line = LineStart(entry["key"].get<std::string>()) + "," +
                         rest.dump(-1, ' ', true, Json::error_handler_t::replace).substr(1);
      size += line.size() + 2;
      if (lines.size() >= kMaxEntries || size > kMaxCacheBytes / 2) break;
      lines.push_back(std::move(line));
    }
  }
  cache_ = fmt::format("{{\"format\":{},\"pythons\":[\n{}\n]}}\n", kFormat, fmt::join(lines, ",\n"));
  ReplaceFile(cache_dir_, cache_);
}

Result<PythonAnswer> PythonAsker::AskProgram(const std::string& path) {
  // Also before a remembered answer is taken, so that the second run is refused like the first.
  TRY_VOID(CheckRunnable(path, host_.guest_writable, host_.virtual_env));
  std::string key = KeyOf(path, host_);
  if (key.empty()) return Err(ErrorCode::kNotFound, "'{}' is not an executable file", path);
  if (auto known = Recall(key)) return *known;
  Result<PythonAnswer> answer = AskNow(path, host_);
  // That a shim has nothing to offer is worth knowing, since asking it costs most. A slow machine is no answer.
  if (answer || (answer.error().code == ErrorCode::kUnsupported && IsShim(path))) Remember(key, path, answer);
  return answer;
}

Result<PythonAnswer> PythonAsker::DescribeVenv(const std::string& path, const std::string& dir) {
  TRY(VenvBase base, FindVenvBase(dir, host_));
  PythonAnswer answer;
  answer.read_as_data = true;
  answer.executable = path;
  answer.prefix = dir;
  answer.exec_prefix = dir;
  answer.base_executable = base.executable;
  answer.between = std::move(base.between);
  if (Vouched(base.executable, host_)) {
    TRY(PythonAnswer asked, AskProgram(base.executable));
    answer.base_asked = true;
    answer.version = asked.version;
    answer.base_prefix = asked.base_prefix;
    answer.base_exec_prefix = asked.base_exec_prefix;
    return answer;
  }
  // It will run in the jail only, but what is wrong with it is better told now.
  if (LiesBelowAny(base.executable, host_.guest_writable)) {
    return std::unexpected(CheckRunnable(base.executable, host_.guest_writable, "").error());
  }
  if (base.version.empty()) {
    return Err(ErrorCode::kUnsupported, "pyvenv.cfg does not tell the version of '{}'; put its directory on PATH",
               base.executable);
  }
  std::string minor = base.version.substr(0, base.version.find('.', base.version.find('.') + 1));
  answer.version = std::move(base.version);
  // By its literal path where the library is there; else it is a link to another installation's.
  answer.base_prefix = DirName(DirName(base.executable));
  if (Stamp(fmt::format("{}/lib/python{}", answer.base_prefix, minor)).empty()) {
    answer.base_prefix = DirName(DirName(RealPath(base.executable)));
  }
  answer.base_exec_prefix = answer.base_prefix;
  return answer;
}

Result<PythonAnswer> PythonAsker::Ask(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || ::access(path.c_str(), X_OK) != 0) {
    return Err(ErrorCode::kNotFound, "'{}' is not an executable file", path);
  }
  if (std::string dir = VirtualEnvironmentOf(path); !dir.empty()) {
    auto answer = DescribeVenv(path, dir);
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
  return AskProgram(path);
}

}  // namespace cella::language
