// A private directory on the host for one local run: the workspace when none was named, and compiled programs. Removed
// with its owner; what a killed supervisor left is removed by the next one.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::executor {

class LocalScratch {
 public:
  // Below `parent` (usually $TMPDIR or /tmp).
  static Result<LocalScratch> Create(const std::string& parent);
  LocalScratch(LocalScratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LocalScratch& operator=(LocalScratch&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  LocalScratch(const LocalScratch&) = delete;
  LocalScratch& operator=(const LocalScratch&) = delete;
  ~LocalScratch();

  const std::string& path() const { return path_; }

  // Removes the directories of dead owners with our user id.
  static void Sweep(const std::string& parent);

 private:
  explicit LocalScratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace cella::executor
