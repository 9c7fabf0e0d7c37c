#include "executor/local/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "os/io.h"

namespace cella::executor {
namespace {

constexpr std::string_view kPrefix = "cella-local-";

// Field 22 of /proc/PID/stat: tells a process from a later one with the same number. 0: there is none.
uint64_t StartTime(long pid) {
  auto stat = os::ReadFile(fmt::format("/proc/{}/stat", pid), 4096);
  if (!stat) return 0;
  size_t at = stat->rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
  if (at == std::string::npos) return 0;
  return std::strtoull(stat->c_str() + at + 1, nullptr, 10);
}

uint64_t PidNamespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

void RemoveTree(const std::string& path) {
  namespace fs = std::filesystem;
  // remove_all does not follow links and walks by descriptor.
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  // A program may have taken its own directories' rights away. They are ours to give back.
  auto open_up = [](const fs::path& directory) {
    std::error_code ignored;
    fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow, ignored);
  };
  open_up(path);
  fs::recursive_directory_iterator walk(path, error), end;
  while (!error && walk != end) {
    if (walk->is_directory(error) && !walk->is_symlink()) {
      open_up(walk->path());
    }
    walk.increment(error);
  }
  fs::remove_all(path, error);
}

}  // namespace

Result<LocalScratch> LocalScratch::Create(const std::string& parent) {
  std::string path =
      fmt::format("{}/{}{}-{}-{}-XXXXXX", parent, kPrefix, PidNamespace(), getpid(), StartTime(getpid()));
  if (mkdtemp(path.data()) == nullptr) return SysErr(errno, "create a directory in '{}'", parent);
  return LocalScratch(std::move(path));
}

LocalScratch::~LocalScratch() {
  if (!path_.empty()) RemoveTree(path_);
}

void LocalScratch::Sweep(const std::string& parent) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(parent.c_str()), closedir);
  if (!directory) return;
  while (const dirent* entry = readdir(directory.get())) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    std::string_view rest = name.substr(kPrefix.size());
    uint64_t pid_namespace = 0, start = 0;
    long pid = 0;
    const char* end = rest.data() + rest.size();
    auto zeroth = std::from_chars(rest.data(), end, pid_namespace);
    // In another pid namespace (a container that shares the directory) the number says nothing to us.
    if (zeroth.ec != std::errc() || zeroth.ptr == end || *zeroth.ptr != '-' || pid_namespace != PidNamespace())
      continue;
    auto first = std::from_chars(zeroth.ptr + 1, end, pid);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') continue;
    auto second = std::from_chars(first.ptr + 1, end, start);
    if (second.ec != std::errc() || second.ptr == end || *second.ptr != '-') continue;
    if (StartTime(pid) == start) continue;
    struct stat info;
    if (fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    RemoveTree(fmt::format("{}/{}", parent, name));
  }
}

}  // namespace cella::executor
