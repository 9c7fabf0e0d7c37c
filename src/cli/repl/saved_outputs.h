// Pictures and pages that a guest displays, as files that the user can open: in the directory that was asked for, else
// in a private one below $TMPDIR that is made for the first of them and stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::cli {

class SavedOutputs {
 public:
  // A real path, made when it is missing; empty: a private one.
  explicit SavedOutputs(std::string directory) : directory_(std::move(directory)) {}

  // The path of a new file "cella-N.extension". kExhausted: a session saves no more than kMaxBytes.
  Result<std::string> Save(std::string_view extension, std::string_view content);

  static constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

 private:
  Status OpenDirectory();

  std::string directory_;
  UniqueFd fd_;
  uint64_t bytes_ = 0;
  unsigned number_ = 0;
};

}  // namespace cella::cli
