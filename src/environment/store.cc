#include "environment/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "environment/spec_scanner.h"
#include "os/io.h"

namespace cella::environment {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxRecord = uint64_t{16} << 20;
constexpr int64_t kTouchSeconds = 60;
constexpr size_t kMaxKey = 128;
constexpr int kLeaseTries = 20;
constexpr int64_t kLockFileSeconds = 24 * 60 * 60;

std::string RandomId() {
  std::array<unsigned char, 12> bytes{};
  (void)::getrandom(bytes.data(), bytes.size(), 0);
  std::string id;
  for (unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return SysErr(errno, "create '{}'", path);
}

Status MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    TRY_VOID(MakeDirectory(path.substr(0, end)));
    if (end == std::string::npos) return {};
  }
}

// All at once: a reader sees the old content or the new one.
Status WriteWhole(const std::string& path, const std::string& content) {
  const std::string part = path + "." + RandomId() + ".part";
  UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return SysErr(errno, "create '{}'", part);
  Status written = os::WriteAll(file.get(), content);
  if (written && ::fsync(file.get()) < 0) written = SysErr(errno, "write '{}'", part);
  if (written && ::rename(part.c_str(), path.c_str()) < 0) written = SysErr(errno, "rename to '{}'", path);
  if (!written) (void)::unlink(part.c_str());
  return written;
}

std::optional<Json> ReadRecord(const std::string& path) {
  auto text = os::ReadFile(path, kMaxRecord);
  if (!text) return std::nullopt;
  Json record = Json::parse(*text, nullptr, false);
  if (!record.is_object()) return std::nullopt;
  return record;
}

std::string TextOf(const Json& record, const char* key) {
  auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

uint64_t NumberOf(const Json& record, const char* key) {
  auto found = record.find(key);
  return found != record.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::vector<std::string> TextsOf(const Json& record, const char* key) {
  std::vector<std::string> texts;
  auto found = record.find(key);
  if (found == record.end() || !found->is_array()) return texts;
  for (const Json& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

Json ToJson(const Manifest& manifest) {
  Json packages = Json::array();
  for (const Package& package : manifest.packages) {
    packages.push_back({{"name", package.name}, {"version", package.version}});
  }
  return {{"key", manifest.key},     {"python", manifest.python},       {"version", manifest.version},
          {"packages", packages},    {"requested", manifest.requested}, {"lock", manifest.lock},
          {"bytes", manifest.bytes}, {"files", manifest.files}};
}

std::optional<Manifest> ReadManifest(const std::string& path) {
  auto record = ReadRecord(path);
  if (!record) return std::nullopt;
  Manifest manifest;
  manifest.key = TextOf(*record, "key");
  manifest.python = TextOf(*record, "python");
  manifest.version = TextOf(*record, "version");
  manifest.requested = TextsOf(*record, "requested");
  manifest.lock = TextOf(*record, "lock");
  manifest.bytes = NumberOf(*record, "bytes");
  manifest.files = NumberOf(*record, "files");
  if (auto packages = record->find("packages"); packages != record->end() && packages->is_array()) {
    for (const Json& package : *packages) {
      if (package.is_object()) manifest.packages.push_back({TextOf(package, "name"), TextOf(package, "version")});
    }
  }
  return manifest;
}

// Nothing: another process holds it.
std::optional<UniqueFd> TryLock(const std::string& path, int how) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || ::flock(fd.get(), how | LOCK_NB) < 0) return std::nullopt;
  // A collector may have removed the file between open and flock.
  struct stat ours, named;
  if (::fstat(fd.get(), &ours) < 0 || ::stat(path.c_str(), &named) < 0 || ours.st_ino != named.st_ino) {
    return std::nullopt;
  }
  return fd;
}

// How often files are locked for reading, by "MAJOR:MINOR:INODE" as /proc/locks has it.
std::map<std::string, uint64_t> ReadLocks() {
  std::map<std::string, uint64_t> counts;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, pid, file;
    if (words >> number >> kind >> mode >> access >> pid >> file && kind == "FLOCK" && access == "READ") ++counts[file];
  }
  return counts;
}

std::string LockedName(const struct stat& info) {
  return fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
}

// The names of directories, or of files with the ending cut off.
std::vector<std::string> Entries(const std::string& directory, std::string_view ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename();
    if (!name.ends_with(ending)) continue;
    names.push_back(name.substr(0, name.size() - ending.size()));
  }
  std::ranges::sort(names);
  return names;
}

// Neither names nor owners contain '@'.
std::string FileOfName(const std::string& root, const std::string& name, const std::string& owner) {
  return fmt::format("{}/names/{}{}{}.json", root, owner, owner.empty() ? "" : "@", name);
}

std::optional<NamedEnvironment> ReadName(const std::string& root, const std::string& name, const std::string& owner) {
  auto record = ReadRecord(FileOfName(root, name, owner));
  if (!record) return std::nullopt;
  return NamedEnvironment{name,
                          TextOf(*record, "python"),
                          TextsOf(*record, "packages"),
                          TextsOf(*record, "preload"),
                          TextOf(*record, "lock"),
                          TextOf(*record, "key"),
                          owner,
                          record->value("automatic", Json(false)) == true};
}

}  // namespace

bool IsEnvironmentName(std::string_view name) {
  if (name.empty() || name.size() > 64 || !IsAlnum(name.front())) return false;
  return std::ranges::all_of(name, [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

void RemoveReadOnlyTree(const std::string& path) {
  std::error_code error;
  // A directory without write permission does not let go of its entries.
  if (fs::is_directory(fs::symlink_status(path, error))) {
    (void)::chmod(path.c_str(), 0700);
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
      if (fs::is_directory(entry->symlink_status(error))) (void)::chmod(entry->path().c_str(), 0700);
    }
  }
  fs::remove_all(path, error);
}

void EmptyReadOnlyTree(const std::string& path) {
  for (const std::string& name : Entries(path, "")) RemoveReadOnlyTree(path + "/" + name);
}

StagingGuard::~StagingGuard() { RemoveReadOnlyTree(path_); }

Result<Store> Store::Open(const std::string& state_dir) {
  std::string root = state_dir + "/environments";
  struct stat info;
  if (::stat((root + "/locks").c_str(), &info) != 0) {
    TRY_VOID(MakeDirectories(root));
    for (const char* part :
         {"work", "work/cache", "work/staging", "work/bytecode", "ready", "requests", "names", "tools", "locks"}) {
      TRY_VOID(MakeDirectory(root + "/" + part));
    }
  }
  TRY_VOID(MakeDirectory(root + "/built"));
  // Guests see this directory: without the right to read it no process can list it, not even its owner's.
  const std::string layers = root + "/layers";
  TRY_VOID(MakeDirectory(layers));
  if (::chmod(layers.c_str(), 0311) < 0) return SysErr(errno, "chmod '{}'", layers);
  std::error_code error;
  std::string real = fs::canonical(root, error);
  if (error) return SysErr(error.value(), "open '{}'", root);
  if (::stat(real.c_str(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0) {
    return Err(
        ErrorCode::kPermission,
        "'{}' is open to other users, who could change environments: chmod 700 it, or name another directory with "
        "CELLA_STATE_DIR",
        real);
  }
  return Store(std::move(real));
}

std::optional<std::string> Store::FindLock(const std::string& request_key, int64_t max_age_seconds) const {
  auto record = ReadRecord(fmt::format("{}/requests/{}.json", root_, request_key));
  if (!record) return std::nullopt;
  const auto age = std::time(nullptr) - static_cast<int64_t>(NumberOf(*record, "resolved"));
  if (age > max_age_seconds || age < -max_age_seconds || !record->contains("lock")) return std::nullopt;
  return TextOf(*record, "lock");
}

Status Store::KeepLock(const std::string& request_key, const std::string& lock) const {
  Json record = {{"resolved", static_cast<uint64_t>(std::time(nullptr))}, {"lock", lock}};
  return WriteWhole(fmt::format("{}/requests/{}.json", root_, request_key), record.dump());
}

std::optional<Ready> Store::Find(const std::string& key) const {
  const std::string directory = ready() + "/" + key;
  struct stat info;
  if (::stat((directory + "/manifest.json").c_str(), &info) != 0) return std::nullopt;
  // A process that lists environments holds the lease for a moment. Without another try a build would follow.
  auto lease = TryLock(directory + ".lease", LOCK_SH);
  for (int more = kLeaseTries; !lease && more > 0 && ::stat(directory.c_str(), &info) == 0; --more) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lease = TryLock(directory + ".lease", LOCK_SH);
  }
  if (!lease) return std::nullopt;
  auto manifest = ReadManifest(directory + "/manifest.json");
  if (!manifest) return std::nullopt;
  if (::fstat(lease->get(), &info) == 0 && info.st_mtime + kTouchSeconds < std::time(nullptr)) {
    (void)::futimens(lease->get(), nullptr);
  }
  return Ready{std::move(*manifest), directory + "/venv", StoreLock(std::move(*lease))};
}

Result<StoreLock> Store::Lock(const std::string& name) const {
  auto fd = TryLock(fmt::format("{}/locks/{}.lock", root_, name), LOCK_EX);
  if (!fd) return Err(ErrorCode::kExhausted, "'{}' is locked by another process", name);
  return StoreLock(std::move(*fd));
}

Result<StoreLock> Store::LockShared(const std::string& name) const {
  auto fd = TryLock(fmt::format("{}/locks/{}.lock", root_, name), LOCK_SH);
  if (!fd) return Err(ErrorCode::kExhausted, "'{}' is locked by another process", name);
  return StoreLock(std::move(*fd));
}

Result<Store::Staging> Store::MakeStaging() const {
  const std::string id = RandomId();
  TRY(StoreLock lock, Lock("staging-" + id));
  const std::string path = work() + "/staging/" + id;
  TRY_VOID(MakeDirectory(path));
  return Staging{id, path, std::move(lock)};
}

Status Store::Publish(const Staging& staging, const Manifest& manifest) const {
  TRY_VOID(WriteWhole(staging.path + "/manifest.json", ToJson(manifest).dump(1)));
  UniqueFd directory(::open(staging.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) (void)::syncfs(directory.get());
  const std::string place = ready() + "/" + manifest.key;
  // A directory without a manifest cannot be used: the machine stopped before its files were on the disk.
  struct stat info;
  if (::lstat(place.c_str(), &info) == 0 && !ReadManifest(place + "/manifest.json")) (void)RemoveReady(manifest.key);
  // RENAME_NOREPLACE: another builder may have been first, and guests use what is there.
  if (::syscall(SYS_renameat2, AT_FDCWD, staging.path.c_str(), AT_FDCWD, place.c_str(), 1) == 0) return {};
  if (errno != EEXIST) return SysErr(errno, "publish '{}'", place);
  RemoveReadOnlyTree(staging.path);
  return {};
}

void Store::Sweep() const {
  for (const std::string& id : Entries(work() + "/staging", "")) {
    const std::string lock = fmt::format("{}/locks/staging-{}.lock", root_, id);
    auto held = TryLock(lock, LOCK_EX);
    if (!held) continue;
    RemoveReadOnlyTree(work() + "/staging/" + id);
    (void)::unlink(lock.c_str());
  }
  for (const std::string& name : Entries(root_ + "/locks", ".lock")) {
    if (!name.starts_with("layer-")) continue;
    const std::string lock = fmt::format("{}/locks/{}.lock", root_, name);
    auto held = TryLock(lock, LOCK_EX);
    if (held) RemoveLayer({name.substr(6), StoreLock(std::move(*held))});
  }
}

void Store::TrimCache(uint64_t most) const {
  const std::string cache = work() + "/cache";
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(cache, error), end; !error && entry != end; entry.increment(error)) {
    struct stat info;
    if (::lstat(entry->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes += static_cast<uint64_t>(info.st_size);
    }
  }
  if (bytes <= most) return;
  auto held = TryLock(root_ + "/locks/cache.lock", LOCK_EX);
  if (!held) return;
  for (const char* part : {"/cache", "/bytecode"}) {
    const std::string trash = work() + "/staging/" + RandomId();
    if (::rename((work() + part).c_str(), trash.c_str()) < 0) continue;
    (void)MakeDirectory(work() + part);
    RemoveReadOnlyTree(trash);
  }
}

std::optional<std::string> Store::FindBuilt(const std::string& key) const {
  const bool sound =
      !key.empty() && key.size() <= kMaxKey && std::ranges::all_of(key, [](char c) { return IsAlnum(c) || c == '-'; });
  if (!sound) return std::nullopt;
  std::string directory = root_ + "/built/" + key;
  struct stat info;
  if (::lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  // Its last use.
  if (info.st_mtime + kTouchSeconds < std::time(nullptr)) {
    (void)::utimensat(AT_FDCWD, directory.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
  return directory;
}

Status Store::PublishBuilt(const std::string& directory, const std::string& key) const {
  const std::string place = root_ + "/built/" + key;
  if (::chmod(directory.c_str(), 0755) < 0) return SysErr(errno, "publish '{}'", place);
  if (::syscall(SYS_renameat2, AT_FDCWD, directory.c_str(), AT_FDCWD, place.c_str(), 1) == 0 || errno == EEXIST) {
    return {};
  }
  return SysErr(errno, "publish '{}'", place);
}

Result<Store::Layer> Store::MakeLayer() const {
  const std::string name = RandomId() + RandomId();
  TRY(StoreLock lock, Lock("layer-" + name));
  const std::string path = layers() + "/" + name;
  TRY_VOID(MakeDirectory(path));
  if (::chmod(path.c_str(), 0711) < 0) return SysErr(errno, "chmod '{}'", path);
  return Layer{name, std::move(lock)};
}

Result<std::string> Store::PublishLayer(const Staging& staging, const Layer& layer, uint64_t number) const {
  const std::string from = staging.path + "/layer";
  std::string below = fmt::format("{}/{}", layer.name, number);
  const std::string to = layers() + "/" + below;
  // To move a directory to another one, its owner needs to write to it.
  if (::chmod(from.c_str(), 0755) < 0 || ::rename(from.c_str(), to.c_str()) < 0 || ::chmod(to.c_str(), 0555) < 0) {
    return SysErr(errno, "publish '{}'", to);
  }
  return below;
}

void Store::RemoveLayer(const Layer& layer) const {
  RemoveReadOnlyTree(layers() + "/" + layer.name);
  (void)::unlink(fmt::format("{}/locks/layer-{}.lock", root_, layer.name).c_str());
}

Status Store::SaveName(const NamedEnvironment& named) const {
  Json record = {{"python", named.python}, {"packages", named.packages}, {"preload", named.preload},
                 {"lock", named.lock},     {"key", named.key},           {"automatic", named.automatic}};
  return WriteWhole(FileOfName(root_, named.name, named.owner), record.dump(1));
}

Result<NamedEnvironment> Store::FindName(const std::string& name, const std::string& owner) const {
  if (!IsEnvironmentName(name)) {
    return Err(ErrorCode::kInvalid, "'{}' is not the name of an environment: letters, digits, - _ . (at most 64)",
               name);
  }
  if (auto named = ReadName(root_, name, owner)) return *named;
  if (auto named = owner.empty() ? std::nullopt : ReadName(root_, name, "")) return *named;
  std::string there;
  for (const NamedEnvironment& other : Names()) {
    if (other.owner.empty() || other.owner == owner) there += (there.empty() ? "" : ", ") + other.name;
  }
  return Err(ErrorCode::kNotFound,
             "there is no environment '{}' ({}); make it with: cella env create {} --with PACKAGE", name,
             there.empty() ? "there is none yet" : "there are: " + there, name);
}

std::vector<NamedEnvironment> Store::Names() const {
  std::vector<NamedEnvironment> found;
  for (const std::string& entry : Entries(root_ + "/names", ".json")) {
    const size_t at = entry.find('@');
    const std::string owner = at == std::string::npos ? "" : entry.substr(0, at);
    const std::string name = at == std::string::npos ? entry : entry.substr(at + 1);
    if (auto named = ReadName(root_, name, owner)) found.push_back(std::move(*named));
  }
  return found;
}

Status Store::RemoveName(const std::string& name, const std::string& owner) const {
  TRY_VOID(FindName(name, owner));
  if (::unlink(FileOfName(root_, name, owner).c_str()) < 0) return SysErr(errno, "remove '{}'", name);
  return {};
}

void Store::RemoveUnnamed(const std::string& key) const {
  const std::vector<NamedEnvironment> names = Names();
  if (std::ranges::find(names, key, &NamedEnvironment::key) == names.end()) (void)RemoveReady(key);
}

std::vector<StoredEnvironment> Store::List() const {
  std::vector<StoredEnvironment> found;
  const std::vector<NamedEnvironment> names = Names();
  const std::map<std::string, uint64_t> locks = ReadLocks();
  for (const std::string& key : Entries(ready(), "")) {
    auto manifest = ReadManifest(ready() + "/" + key + "/manifest.json");
    if (!manifest) continue;
    StoredEnvironment stored{std::move(*manifest), {}, 0, false, 0};
    for (const NamedEnvironment& named : names) {
      if (named.key == key) stored.names.push_back(named.owner + (named.owner.empty() ? "" : "@") + named.name);
    }
    const std::string lease = ready() + "/" + key + ".lease";
    struct stat info;
    if (::stat(lease.c_str(), &info) == 0) {
      stored.last_use = info.st_mtime;
      stored.in_use = !TryLock(lease, LOCK_EX);
      const auto uses = locks.find(LockedName(info));
      if (stored.in_use) stored.uses = uses == locks.end() ? 1 : uses->second;
    }
    found.push_back(std::move(stored));
  }
  return found;
}

bool Store::RemoveReady(const std::string& key) const {
  const std::string lease = ready() + "/" + key + ".lease";
  auto held = TryLock(lease, LOCK_EX);
  if (!held) return false;
  const std::string trash = work() + "/staging/" + RandomId();
  if (::rename((ready() + "/" + key).c_str(), trash.c_str()) < 0) return false;
  (void)::unlink(lease.c_str());
  RemoveReadOnlyTree(trash);
  return true;
}

Result<Collected> Store::Collect(int64_t unused_seconds) const {
  Sweep();
  Collected collected;
  const int64_t now = std::time(nullptr);
  for (const StoredEnvironment& stored : List()) {
    if (stored.in_use || !stored.names.empty() || now - stored.last_use < unused_seconds) continue;
    if (!RemoveReady(stored.manifest.key)) continue;
    ++collected.environments;
    collected.bytes += stored.manifest.bytes;
  }
  ForgetOld(unused_seconds);
  return collected;
}

void Store::ForgetOld(int64_t unused_seconds) const {
  const int64_t now = std::time(nullptr);
  const auto is_older = [now](const std::string& path, int64_t seconds) {
    struct stat info;
    return ::lstat(path.c_str(), &info) == 0 && now - info.st_mtime >= seconds;
  };
  for (const std::string& key : Entries(root_ + "/requests", ".json")) {
    const std::string path = fmt::format("{}/requests/{}.json", root_, key);
    if (is_older(path, unused_seconds)) (void)::unlink(path.c_str());
  }
  if (const std::vector<std::string> built = Entries(root_ + "/built", ""); !built.empty()) {
    // An environment that is made again from its lock needs the wheels that the lock names.
    std::string locks;
    for (const NamedEnvironment& named : Names()) locks += named.lock;
    for (const std::string& key : Entries(root_ + "/requests", ".json")) {
      if (auto lock = FindLock(key, std::numeric_limits<int64_t>::max())) locks += *lock;
    }
    for (const std::string& key : built) {
      const std::string path = root_ + "/built/" + key;
      if (is_older(path, unused_seconds) && !locks.contains(key)) RemoveReadOnlyTree(path);
    }
  }
  for (const std::string& name : Entries(root_ + "/locks", ".lock")) {
    const std::string path = fmt::format("{}/locks/{}.lock", root_, name);
    if (!is_older(path, kLockFileSeconds)) continue;
    if (auto held = TryLock(path, LOCK_EX)) (void)::unlink(path.c_str());
  }
}

}  // namespace cella::environment
