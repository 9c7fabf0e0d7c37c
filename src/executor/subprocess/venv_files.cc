#include "executor/subprocess/venv_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/unique_fd.h"
#include "language/host_path.h"
#include "os/io.h"

namespace cella::executor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecord = uint64_t{16} << 20;
constexpr size_t kMaxFiles = 200'000;

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) < 0) return SysErr(errno, "create '{}'", path);
  return {};
}

Status MakeFile(const std::string& path, std::string_view content, mode_t mode) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) return SysErr(errno, "create '{}'", path);
  return os::WriteAll(file.get(), content);
}

Status MakeLink(const std::string& target, const std::string& path) {
  if (symlink(target.c_str(), path.c_str()) < 0) return SysErr(errno, "create '{}'", path);
  return {};
}

// As a literal of Python.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\\' || c == '\'') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// pip as the module of the environment that the script lies in.
constexpr const char* kPipScript = R"(#!/bin/sh
exec "$(dirname -- "$0")/python" -m pip "$@"
)";

Status CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::is_symlink(from, error)) {
    fs::copy_symlink(from, to, error);
  } else {
    fs::copy_file(from, to, error);
    // Files of finished environments are read-only.
    if (!error) fs::permissions(to, fs::perms::owner_write, fs::perm_options::add, error);
  }
  if (error) return SysErr(error.value(), "copy '{}' to '{}'", from.native(), to.native());
  return {};
}

Status CopyTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  size_t files = 0;
  for (fs::recursive_directory_iterator entry(from, error), end; !error && entry != end; entry.increment(error)) {
    if (++files > kMaxFiles) return Err(ErrorCode::kExhausted, "'{}' has more than {} files", from.native(), kMaxFiles);
    const fs::path place = to / entry->path().lexically_relative(from);
    if (entry->is_directory(error) && !entry->is_symlink(error)) {
      TRY_VOID(MakeDirectory(place));
    } else {
      TRY_VOID(CopyFile(entry->path(), place));
    }
  }
  if (error) return SysErr(error.value(), "read '{}'", from.native());
  return {};
}

}  // namespace

std::string NameOfDistInfo(const std::string& directory) {
  std::string name = directory.substr(0, directory.find('-'));
  std::ranges::transform(name, name.begin(), [](char c) {
    if (c == '.' || c == '-') return '_';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c;
  });
  return name;
}

std::vector<std::string> DistInfosOf(const std::string& site) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(site, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.ends_with(".dist-info")) found.push_back(name);
  }
  return found;
}

std::vector<std::string> ReadRecord(const std::string& text) {
  std::vector<std::string> paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool quoted = line.starts_with('"');
    const size_t end = quoted ? line.find('"', 1) : line.find(',');
    if (end != std::string::npos) paths.push_back(line.substr(quoted ? 1 : 0, quoted ? end - 1 : end));
  }
  return paths;
}

std::string MinorVersion(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

Status MakeFreshVenv(const std::string& directory, const std::string& python, const std::string& version,
                     const std::vector<std::string>& sites) {
  const std::string minor = MinorVersion(version);
  const std::string site = fmt::format("{}/lib/python{}/site-packages", directory, minor);
  for (const std::string& path :
       {directory, directory + "/bin", directory + "/lib", fmt::format("{}/lib/python{}", directory, minor), site}) {
    TRY_VOID(MakeDirectory(path));
  }
  TRY_VOID(MakeLink("lib", directory + "/lib64"));
  TRY_VOID(MakeLink(python, directory + "/bin/python"));
  for (const std::string& name : {std::string("python3"), "python" + minor}) {
    TRY_VOID(MakeLink("python", fmt::format("{}/bin/{}", directory, name)));
  }
  const std::string config = fmt::format("home = {}\ninclude-system-site-packages = false\nversion = {}\n",
                                         fs::path(python).parent_path().native(), version);
  TRY_VOID(MakeFile(directory + "/pyvenv.cfg", config, 0644));
  // Of each directory the .pth files count too.
  std::string lines;
  for (const std::string& each : sites) {
    if (each.find('\n') != std::string::npos) return Err(ErrorCode::kInvalid, "a line break in the path '{}'", each);
    lines += fmt::format("import site; site.addsitedir({})\n", Quoted(each));
  }
  TRY_VOID(MakeFile(site + "/_cella.pth", lines, 0644));
  for (const char* name : {"pip", "pip3"}) {
    TRY_VOID(MakeFile(fmt::format("{}/bin/{}", directory, name), kPipScript, 0755));
  }
  return {};
}

std::string SitePackagesOf(const std::string& venv) {
  std::error_code error;
  for (fs::directory_iterator entry(venv + "/lib", error), end; !error && entry != end; entry.increment(error)) {
    const fs::path site = entry->path() / "site-packages";
    if (entry->path().filename().native().starts_with("python") && fs::is_directory(site, error)) return site;
  }
  return {};
}

bool HasIpykernel(const std::vector<std::string>& sites) {
  return std::ranges::any_of(
      sites, [](const std::string& site) { return access((site + "/ipykernel/__init__.py").c_str(), R_OK) == 0; });
}

Status CopyVenv(const std::string& from, const std::string& to) {
  const fs::path place(to);
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (error) return SysErr(error.value(), "create '{}'", place.parent_path().native());
  std::string aside = fmt::format("{}/.{}.XXXXXX", place.parent_path().native(), place.filename().native());
  if (mkdtemp(aside.data()) == nullptr) return SysErr(errno, "create '{}'", to);
  Status copied = CopyTree(from, aside);
  if (copied && chmod(aside.c_str(), 0755) < 0) copied = SysErr(errno, "create '{}'", to);
  if (copied && rename(aside.c_str(), to.c_str()) < 0) {
    copied = SysErr(errno, "create '{}'", to);
    // Another session has made it meanwhile.
    if ((copied.error().sys_errno == ENOTEMPTY || copied.error().sys_errno == EEXIST) &&
        access((to + "/pyvenv.cfg").c_str(), F_OK) == 0) {
      fs::remove_all(aside, error);
      return {};
    }
  }
  if (!copied) fs::remove_all(aside, error);
  return copied;
}

Status CopyMissingPackages(const std::string& from, const std::string& to) {
  const fs::path source(SitePackagesOf(from)), target(SitePackagesOf(to));
  if (source.empty() || target.empty() || source.parent_path().filename() != target.parent_path().filename()) {
    return Err(ErrorCode::kInvalid, "the virtual environment '{}' has no packages of the Python of '{}'", to, from);
  }
  std::error_code unknown;
  const fs::path root = fs::canonical(to, unknown);
  if (unknown) return SysErr(unknown.value(), "open '{}'", to);
  std::set<std::string> present;
  for (const std::string& name : DistInfosOf(target)) present.insert(NameOfDistInfo(name));
  for (const std::string& name : DistInfosOf(source)) {
    if (present.contains(NameOfDistInfo(name))) continue;
    TRY(const std::string record, language::ReadDataFile((source / name / "RECORD").native(), kMaxRecord));
    for (const std::string& path : ReadRecord(record)) {
      const fs::path file = (source / path).lexically_normal();
      const fs::path place = (target / path).lexically_normal();
      const bool inside = file.native().starts_with(from + "/") && place.native().starts_with(to + "/");
      std::error_code error;
      if (!inside || fs::exists(place, error) || !fs::exists(file, error)) continue;
      // A guest may have left a link in the environment.
      const fs::path parent = fs::weakly_canonical(place.parent_path(), error);
      if (error || !(parent.native() + "/").starts_with(root.native() + "/")) {
        return Err(ErrorCode::kPermission,
                   "'{}' leads out of the virtual environment '{}', so nothing is installed there: remove the link",
                   place.parent_path().native(), to);
      }
      fs::create_directories(place.parent_path(), error);
      if (error) return SysErr(error.value(), "create '{}'", place.parent_path().native());
      TRY_VOID(CopyFile(file, place));
    }
  }
  return {};
}

}  // namespace cella::executor
