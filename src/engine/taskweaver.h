// TaskWeaver's configuration file, of which two settings are read: in what kind of kernel code runs, and the image of a
// container. Nothing else of it is looked at or printed; it holds keys of language models.
#pragma once

#include <string>

#include "base/result.h"
#include "cella/policy.h"

namespace cella::engine {

struct TaskWeaver {
  ExecutorKind executor = ExecutorKind::kSubprocess;
  std::string image;  // of a container; empty: the default one

  // What a session like TaskWeaver's has: its rule for values, and its image, which is never fetched.
  void Apply(Policy* policy) const;
};

// `variable` is the value of EXECUTION_SERVICE_KERNEL_MODE, which wins over the file; empty: not set. kInvalid: a mode
// that TaskWeaver does not know.
Result<TaskWeaver> ParseTaskWeaver(const std::string& text, const std::string& variable);
// With the variable of this process.
Result<TaskWeaver> ReadTaskWeaver(const std::string& path);

}  // namespace cella::engine
