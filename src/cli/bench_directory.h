// A directory for the time of a measurement.
#pragma once

#include <string>

#include "base/result.h"

namespace cella::cli {

class BenchDirectory {
 public:
  static Result<BenchDirectory> Make();
  BenchDirectory(BenchDirectory&& other) noexcept;
  BenchDirectory& operator=(BenchDirectory&&) = delete;
  ~BenchDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit BenchDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace cella::cli
