// A directory for one test, gone with it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "os/directory.h"

namespace cella::os {

class TempDirectory {
 public:
  TempDirectory() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  std::string path(const std::string& name = "") const { return std::string(path_) + (name.empty() ? "" : "/" + name); }
  Directory Open(std::optional<FsIdentity> identity = std::nullopt) const {
    return Directory(UniqueFd(open(path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), identity);
  }

 private:
  char path_[32] = "/tmp/cella-test-XXXXXX";
};

}  // namespace cella::os
