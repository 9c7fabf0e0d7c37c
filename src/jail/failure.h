// How a step of the jail says that it failed: which step, errno, and the object. No allocation; the detail points to
// memory that outlives the report (the spec, or a literal).
#pragma once

#include <cerrno>

#include "jail/protocol.h"

namespace cella::jail {

struct [[nodiscard]] Failure {
  Stage stage = Stage::kNone;
  int error = 0;
  const char* detail = nullptr;

  explicit operator bool() const { return stage != Stage::kNone; }
};

inline constexpr Failure kOk{};

inline Failure Fail(Stage stage, const char* detail = nullptr) { return Failure{stage, errno, detail}; }

}  // namespace cella::jail

// Runs a step; leaves the function with its failure.
#define JAIL_TRY(expr)                                             \
  do {                                                             \
    if (::cella::jail::Failure failure_ = (expr)) return failure_; \
  } while (false)
