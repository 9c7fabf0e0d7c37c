// An ExecSpec that came in a memfd, with argv and envp as pointers into it. Allocates by mmap only.
#pragma once

#include <cstddef>

#include "jail/failure.h"
#include "jail/spec.h"

namespace cella::jail {

class ExecBlock {
 public:
  ExecBlock() = default;
  ~ExecBlock();
  ExecBlock(const ExecBlock&) = delete;
  ExecBlock& operator=(const ExecBlock&) = delete;

  Failure Map(int fd);

  const ExecSpec& spec() const { return *spec_; }
  char* const* argv() const { return argv_; }
  char* const* envp() const { return argv_ + spec_->argc + 1; }

 private:
  const ExecSpec* spec_ = nullptr;
  size_t size_ = 0;
  char** argv_ = nullptr;
  size_t table_bytes_ = 0;
};

}  // namespace cella::jail
