// Runs a function when the scope ends, unless released.
#pragma once

#include <utility>

namespace cella {

template <typename F>
class ScopeExit {
 public:
  explicit ScopeExit(F function) : function_(std::move(function)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() {
    if (armed_) function_();
  }
  void Release() { armed_ = false; }

 private:
  F function_;
  bool armed_ = true;
};

}  // namespace cella
