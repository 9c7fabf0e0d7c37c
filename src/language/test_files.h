// For the tests of this folder: a temporary directory, programs in it that print what they are given to print, and a
// way to ask them without a jail.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
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

// A program PREFIX/bin/NAME that answers as an interpreter of that prefix would: its executable is the path that it was
// called by, and its prefix is found from there.
inline std::string FakePython(const TempDir& dir, std::string_view prefix, std::string_view name,
                              std::string_view version) {
  std::string_view minor = version.substr(0, version.rfind('.'));
  std::filesystem::create_directories(fmt::format("{}/lib/python{}", dir / prefix, minor));
  constexpr std::string_view kScript =
      "file=$0; [ -L \"$0\" ] && file=$(readlink \"$0\")\n"
      "prefix=$(dirname \"$(dirname \"$file\")\")\n"
      "printf '{\"executable\":\"%s\",\"version\":\"VERSION\"' \"$0\"\n"
      "for name in prefix base_prefix exec_prefix base_exec_prefix; do printf ',\"%s\":\"%s\"' $name \"$prefix\"; "
      "done\n"
      "printf '}'";
  std::string script(kScript);
  script.replace(script.find("VERSION"), 7, version);
  return dir.Script(fmt::format("{}/bin/{}", prefix, name), script);
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

// Starts the program here, for tests that write every program themselves.
class FakeAsker : public ToolAsker {
 public:
  Result<std::string> AskProgram(const ToolQuery& query) const override {
    asked_.push_back(query);
    std::string out = Template(), err = Template();
    const pid_t child = ::fork();
    if (child == 0) {
      (void)::dup2(::open(out.c_str(), O_WRONLY | O_TRUNC), 1);
      (void)::dup2(::open(err.c_str(), O_WRONLY | O_TRUNC), 2);
      (void)!::chdir("/");
      ::execve(query.argv[0].c_str(), Pointers(query.argv).data(), Pointers(query.env).data());
      ::_exit(127);
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    std::string answer = Take(out), complaint = Take(err);
    if (status == 0) return answer;
    return Err(ErrorCode::kUnsupported, "'{}' exited with {}: {}", query.argv[0], WEXITSTATUS(status), complaint);
  }

  const std::vector<ToolQuery>& asked() const { return asked_; }

 private:
  static std::string Template() {
    std::string name = std::filesystem::temp_directory_path() / "cella-asked-XXXXXX";
    ::close(::mkstemp(name.data()));
    return name;
  }
  static std::string Take(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    std::filesystem::remove(path);
    return text.str();
  }
  static std::vector<char*> Pointers(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
  }

  mutable std::vector<ToolQuery> asked_;
};

// What was asked of the host's asker.
inline const std::vector<ToolQuery>& Asked(const HostEnv& host) {
  return static_cast<const FakeAsker&>(*host.asker).asked();
}

inline HostEnv FakeHost(const TempDir& dir) {
  HostEnv host;
  host.path = dir / "bin";
  host.home = dir / "home";
  host.cwd = dir.path();
  host.cache_dir = dir / "cache";
  host.asker = std::make_shared<FakeAsker>();
  return host;
}

}  // namespace cella::language
