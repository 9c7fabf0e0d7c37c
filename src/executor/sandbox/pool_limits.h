// What is made ahead of demand, and what starts from it.
#pragma once

#include <chrono>
#include <cstddef>

namespace cella::executor {

// Of each kind of session; 0: none are kept.
struct PoolLimits {
  size_t jails = 0;   // empty jails
  size_t parked = 0;  // whole sessions
  // Python programs without a session are forked from the warm interpreter. Of use where there is more than one.
  bool forks_programs = false;
  // After so long without a session, a warm interpreter that was not prepared ahead ends.
  std::chrono::nanoseconds idle = std::chrono::minutes(10);
};

}  // namespace cella::executor
