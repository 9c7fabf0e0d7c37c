// For the tests of this folder: a temporary directory, and programs in it that say what they are told to say.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "language/host_env.h"

namespace cella::language {

class TempDir {
 public:
  TempDir() {
    std::string name = std::filesystem::temp_directory_path() / "cella-language-XXXXXX";
    // A real path, so that tests can compare literally.
    path_ = std::filesystem::canonical(::mkdtemp(name.data()));
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string operator/(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
  const std::string& path() const { return path_; }

  std::string Write(std::string_view name, std::string_view text, mode_t mode = 0644) const {
    std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }

  std::string Script(std::string_view name, std::string_view body) const {
    return Write(name, fmt::format("#!/bin/sh\n{}\n", body), 0755);
  }

  std::string Link(std::string_view name, std::string_view target) const {
    std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::create_symlink(target, path);
    return path;
  }

  std::string Read(std::string_view name) const {
    std::ostringstream text;
    text << std::ifstream(*this / name).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

// A program PREFIX/bin/NAME that answers as an interpreter of that prefix would, and adds a line to `asked` each time.
inline std::string FakePython(const TempDir& dir, std::string_view prefix, std::string_view name,
                              std::string_view version, std::string base_prefix = "") {
  std::string full = dir / prefix;
  if (base_prefix.empty()) base_prefix = full;
  std::string_view minor = version.substr(0, version.rfind('.'));
  std::filesystem::create_directories(fmt::format("{}/lib/python{}", full, minor));
  std::string path = fmt::format("{}/bin/{}", prefix, name);
  std::string json = fmt::format(R"({{"executable":"{}","version":"{}","prefix":"{}","base_prefix":"{}",)"
                                 R"("exec_prefix":"{}","base_exec_prefix":"{}"}})",
                                 dir / path, version, full, base_prefix, full, base_prefix);
  return dir.Script(path, fmt::format("echo {} >> '{}/asked'\nprintf '%s' '{}'", path, dir.path(), json));
}

// A virtual environment DIR/NAME that was made from an interpreter in `home`, as a guest may have left it: whoever runs
// something of it makes the file `escaped`.
inline std::string FakeVenv(const TempDir& dir, std::string_view name, std::string_view home,
                            std::string_view version) {
  std::string body = fmt::format("touch '{}/escaped'", dir.path());
  for (const char* program : {"python", "python3"}) (void)dir.Script(fmt::format("{}/bin/{}", name, program), body);
  (void)dir.Write(fmt::format("{}/pyvenv.cfg", name), fmt::format("home = {}\nversion = {}\n", home, version));
  return dir / name;
}

inline HostEnv FakeHost(const TempDir& dir) {
  HostEnv host;
  host.path = dir / "bin";
  host.home = dir / "home";
  host.cwd = dir.path();
  host.cache_dir = dir / "cache";
  return host;
}

}  // namespace cella::language
