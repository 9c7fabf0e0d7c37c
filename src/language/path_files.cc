#include "language/path_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "language/code_trust.h"
#include "language/host_path.h"
#include "language/visible.h"

namespace cella::language {
namespace {

constexpr uint64_t kMaxFile = 65536;
constexpr int kMaxEntries = 20'000;
constexpr size_t kMaxFiles = 64;
constexpr size_t kMaxDirectories = 64;

// "3.11" of "3.11.7".
std::string MinorOf(const std::string& version) { return version.substr(0, version.find('.', version.find('.') + 1)); }

std::vector<std::string> PathFiles(const std::string& site_packages) {
  std::vector<std::string> files;
  std::error_code error;
  int count = 0;
  for (std::filesystem::directory_iterator entry(site_packages, error), end;
       !error && entry != end && count < kMaxEntries; entry.increment(error), ++count) {
    if (entry->path().extension() == ".pth" && files.size() < kMaxFiles) files.push_back(entry->path().native());
  }
  std::ranges::sort(files);
  return files;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::vector<std::string> PathFileDirectories(const std::string& virtual_env, const std::string& version,
                                             const HostEnv& host) {
  std::vector<std::string> found;
  if (!host.guests) return found;
  GuestDirectories own;
  own.Add(host.guest_writable);
  GuestDirectories::Snapshot snapshot = host.guests->TakeAll();
  std::ranges::move(own.Take().entries, std::back_inserter(snapshot.entries));
  for (const std::string& file :
       PathFiles(fmt::format("{}/lib/python{}/site-packages", virtual_env, MinorOf(version)))) {
    if (!WhyUntrusted({.places = {file}}, snapshot).empty()) continue;
    auto text = ReadDataFile(file, kMaxFile);
    std::istringstream lines(text ? *text : "");
    for (std::string line; std::getline(lines, line) && found.size() < kMaxDirectories;) {
      line.erase(line.find_last_not_of(" \t\r/") + 1);
      if (!line.starts_with('/') || line.contains('\0')) continue;
      const std::string directory = Normalize(line, "/");
      if (std::ranges::find(found, directory) != found.end() || !IsDirectory(directory)) continue;
      if (!WhyUntrusted({.libraries = {directory}}, snapshot).empty()) continue;
      found.push_back(directory);
    }
  }
  return found;
}

}  // namespace cella::language
