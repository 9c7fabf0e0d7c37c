// The packages that a session added, read from the store of the host for the way into its container. Blocks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::executor {

class LayerReader {
 public:
  // `source` on the host; `target` is what paths begin with inside, below the packages.
  static Result<LayerReader> Open(const std::string& source, std::string target);

  // Payloads of agent::Kind::kPut, in order; about a megabyte. Empty: that was all.
  Result<std::vector<std::string>> Next();

 private:
  LayerReader(std::filesystem::recursive_directory_iterator entry, std::string source, std::string target)
      : entry_(std::move(entry)), source_(std::move(source)), target_(std::move(target)) {}
  // The next regular file. False: there is none.
  Result<bool> OpenNext();

  std::filesystem::recursive_directory_iterator entry_;
  std::string source_, target_;
  UniqueFd file_;  // that is being read
  std::string path_;
  uint32_t mode_ = 0;
  bool is_first_ = true;
};

}  // namespace cella::executor
