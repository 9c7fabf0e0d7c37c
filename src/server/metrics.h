// What the server counts, as Prometheus reads it. Lives on the loop.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cella/executors.h"
#include "cella/outcome.h"
#include "run/executor.h"

namespace cella::server {

class Histogram {
 public:
  void Add(std::chrono::nanoseconds value);
  // The samples alone; `labels` as `executor="sandbox"`, or empty.
  void Render(std::string_view name, std::string_view labels, std::string* out) const;

 private:
  static constexpr std::array<double, 14> kBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.1,    0.25,  0.5,    1,     2.5,  10,    60};
  std::array<uint64_t, kBounds.size() + 1> counts_ = {};
  double sum_ = 0;
};

class Metrics {
 public:
  void SessionOpened(ExecutorKind executor, std::chrono::nanoseconds took) { Of(executor).session_start.Add(took); }
  // Every run that is accepted also ends.
  void RunAccepted(ExecutorKind executor) { ++Of(executor).runs_accepted; }
  void RunEnded(ExecutorKind executor, RunStatus status, std::chrono::nanoseconds took);
  void Answered(int status);
  // How much later than planned the loop continued a task that only slept.
  void LoopLagged(std::chrono::nanoseconds lag);

  // What others count. Executors that the server does not allow have no row.
  struct ExecutorGauges {
    ExecutorKind executor = kDefaultExecutor;
    size_t sessions = 0;
    size_t queued = 0;
    run::Readiness ready;
    uint64_t memory = 0;  // charged to sessions
  };
  struct Gauges {
    std::vector<ExecutorGauges> executors;
    size_t connections = 0;
    uint64_t registry_failures = 0;
  };
  std::string Render(const Gauges& gauges) const;

 private:
  static constexpr size_t kStatuses = 8;
  struct Counts {
    uint64_t runs_accepted = 0;
    std::array<uint64_t, kStatuses> runs = {};
    Histogram session_start, run;
  };
  Counts& Of(ExecutorKind executor) { return counts_[IndexOf(executor)]; }

  std::array<Counts, kExecutorCount> counts_;
  uint64_t refused_auth_ = 0, refused_quota_ = 0;
  Histogram loop_lag_;
  std::chrono::nanoseconds longest_lag_{0};
};

}  // namespace cella::server
