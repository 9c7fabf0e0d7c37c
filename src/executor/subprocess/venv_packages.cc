#include "executor/subprocess/venv_packages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <vector>

#include "executor/subprocess/venv_files.h"
#include "os/directory.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecord = uint64_t{16} << 20;
constexpr size_t kMaxChildren = 20'000;
// The most that Linux reads of the first line of a script.
constexpr size_t kMaxShebang = 127;
// As the installer writes it into scripts of a layer.
constexpr std::string_view kLayerShebang = "#!/usr/bin/env python3\n";

// The environment: paths are relative to its root.
class Target {
 public:
  static Result<Target> Open(const std::string& venv) {
    const std::string site = SitePackagesOf(venv);
    if (site.empty()) return Err(ErrorCode::kInvalid, "the virtual environment '{}' has no packages", venv);
    UniqueFd fd(open(venv.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return SysErr(errno, "open '{}'", venv);
    return Target(venv, fs::path(site).lexically_relative(venv), os::Directory(std::move(fd), std::nullopt));
  }

  const std::string& venv() const { return venv_; }
  const os::Directory& root() const { return root_; }

  // A path of a RECORD, relative to the root; empty: it leads out of the environment.
  std::string Place(const std::string& recorded) const {
    const std::string place = (fs::path(site_) / recorded).lexically_normal();
    const bool inside = !place.empty() && place[0] != '/' && place != "." && place != ".." && !place.starts_with("../");
    return inside ? place : "";
  }

  std::map<std::string, std::string> DistInfos() const {
    std::map<std::string, std::string> found;
    auto page = root_.ListChildren(site_, "", kMaxChildren);
    if (!page) return found;
    for (const os::ChildEntry& entry : page->entries) {
      if (entry.name.ends_with(".dist-info")) found[NameOfDistInfo(entry.name)] = entry.name;
    }
    return found;
  }

  Result<std::string> ReadRecordOf(const std::string& dist_info) const {
    TRY(os::OpenedFile file, root_.OpenWithInfo(Place(dist_info + "/RECORD")));
    if (file.info.size > kMaxRecord) return Err(ErrorCode::kExhausted, "the RECORD of '{}' is too large", dist_info);
    std::string text(file.info.size, '\0');
    size_t size = 0;
    while (size < text.size()) {
      const ssize_t n = os::RetryOnEintr([&] { return read(file.fd.get(), text.data() + size, text.size() - size); });
      if (n < 0) return SysErr(errno, "read the RECORD of '{}'", dist_info);
      if (n == 0) break;
      size += static_cast<size_t>(n);
    }
    text.resize(size);
    return text;
  }

 private:
  Target(std::string venv, std::string site, os::Directory root)
      : venv_(std::move(venv)), site_(std::move(site)), root_(std::move(root)) {}

  std::string venv_;
  std::string site_;
  os::Directory root_;
};

std::map<std::string, std::string> DistInfosByName(const std::string& layer) {
  std::map<std::string, std::string> found;
  if (layer.empty()) return found;
  for (const std::string& name : DistInfosOf(layer)) found[NameOfDistInfo(name)] = name;
  return found;
}

// A script of the layer is a program of the environment, and runs with the environment's interpreter.
bool IsScript(const std::string& path) { return path.starts_with("bin/") && path.find('/', 4) == std::string::npos; }
std::string RecordedInVenv(const std::string& path) { return IsScript(path) ? "../../../" + path : path; }

std::string ScriptFor(const std::string& venv, std::string content) {
  const std::string shebang = fmt::format("#!{}/bin/python\n", venv);
  const bool fits = shebang.size() <= kMaxShebang && venv.find(' ') == std::string::npos;
  if (fits && content.starts_with(kLayerShebang)) content.replace(0, kLayerShebang.size(), shebang);
  return content;
}

Status CopyFileInto(const Target& target, const std::string& source, const std::string& place, bool script) {
  UniqueFd from(open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info;
  if (!from || fstat(from.get(), &info) < 0) return SysErr(errno, "read '{}'", source);
  // A file that is replaced may have other names, as in a cache of uv, so it is not written to.
  (void)target.root().RemoveFile(place);
  const mode_t mode = script || (info.st_mode & 0100) != 0 ? 0755 : 0644;
  TRY(UniqueFd to, target.root().CreateFile(place, os::Directory::IfExists::kRefuse, mode));
  if (script) {
    TRY(std::string content, os::ReadFile(source, kMaxRecord));
    return os::WriteAll(to.get(), ScriptFor(target.venv(), std::move(content)));
  }
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = os::RetryOnEintr([&] { return read(from.get(), buffer.data(), buffer.size()); });
    if (n < 0) return SysErr(errno, "read '{}'", source);
    if (n == 0) return {};
    TRY_VOID(os::WriteAll(to.get(), std::string_view(buffer.data(), static_cast<size_t>(n))));
  }
}

// The RECORD is written last: without it the package counts as incomplete.
Status Install(const Target& target, const std::string& layer, const std::string& dist_info) {
  TRY(const std::string record, os::ReadFile(fmt::format("{}/{}/RECORD", layer, dist_info), kMaxRecord));
  const std::string own_record = dist_info + "/RECORD";
  std::string written;
  for (const std::string& path : ReadRecord(record)) {
    const std::string source = fs::path(layer + "/" + path).lexically_normal();
    const std::string recorded = RecordedInVenv(path), place = target.Place(recorded);
    if (!source.starts_with(layer + "/") || place.empty()) continue;
    // Without hashes and sizes, which are optional: a script has another first line now.
    written += recorded.find(',') == std::string::npos ? recorded + ",,\n" : "\"" + recorded + "\",,\n";
    if (path == own_record) continue;
    std::error_code error;
    if (!fs::is_regular_file(source, error)) continue;
    TRY_VOID(CopyFileInto(target, source, place, IsScript(path)));
  }
  return target.root().WriteFile(target.Place(own_record), written, os::Directory::IfExists::kRefuse);
}

// What it cannot remove, stays. A package without a RECORD loses only what names it.
Status Uninstall(const Target& target, const std::string& dist_info) {
  const os::Directory& root = target.root();
  std::set<std::string> directories, modules;  // the latter as "pkg/__pycache__/name."
  if (auto record = target.ReadRecordOf(dist_info)) {
    for (const std::string& path : ReadRecord(*record)) {
      const std::string place = target.Place(path);
      if (place.empty()) continue;
      (void)root.RemoveFile(place);
      const fs::path parent = fs::path(place).parent_path();
      if (place.ends_with(".py")) modules.insert(parent / "__pycache__" / (fs::path(place).stem().native() + "."));
      for (fs::path up = parent; up.native().size() > target.Place(".").size(); up = up.parent_path()) {
        directories.insert(up);
      }
    }
  }
  std::set<std::string> caches;
  for (const std::string& module : modules) caches.insert(fs::path(module).parent_path());
  for (const std::string& cache : caches) {
    auto page = root.ListChildren(cache, "", kMaxChildren);
    if (!page) continue;
    for (const os::ChildEntry& entry : page->entries) {
      const std::string stem = entry.name.substr(0, entry.name.find('.') + 1);
      if (modules.contains(cache + "/" + stem)) (void)root.RemoveFile(cache + "/" + entry.name);
    }
    (void)root.Remove(cache);
  }
  // Deepest first; those that hold other files stay.
  for (auto directory = directories.rbegin(); directory != directories.rend(); ++directory) {
    (void)root.Remove(*directory);
  }
  if (!root.Stat(target.Place(dist_info))) return {};
  TRY(const auto removed, root.RemoveTree(target.Place(dist_info), kMaxChildren));
  if (removed == os::Directory::Removed::kPart) {
    return Err(ErrorCode::kExhausted, "'{}' has too many files to be removed", dist_info);
  }
  return {};
}

}  // namespace

std::set<std::string> PackageNamesOf(const std::string& venv) {
  std::set<std::string> names;
  auto target = Target::Open(venv);
  if (!target) return names;
  for (const auto& [name, dist_info] : target->DistInfos()) names.insert(name);
  return names;
}

Status ChangePackages(const VenvChange& change) {
  TRY(const Target target, Target::Open(change.venv));
  const auto before = DistInfosByName(change.before), after = DistInfosByName(change.after);
  const auto present = target.DistInfos();
  for (const auto& [name, dist_info] : before) {
    auto found = present.find(name);
    if (after.contains(name) || change.own.contains(name) || found == present.end()) continue;
    TRY_VOID(Uninstall(target, found->second));
  }
  for (const auto& [name, dist_info] : after) {
    auto found = present.find(name);
    const bool complete = found != present.end() && found->second == dist_info && target.ReadRecordOf(dist_info);
    if (complete) continue;
    if (found != present.end()) TRY_VOID(Uninstall(target, found->second));
    auto installed = Install(target, change.after, dist_info);
    if (!installed) {
      return std::unexpected(
          std::move(installed.error()).WithContext(fmt::format("install '{}' into '{}'", name, change.venv)));
    }
  }
  return {};
}

}  // namespace cella::executor
