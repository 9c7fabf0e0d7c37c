#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cella::server {
namespace {

void Line(std::string* out, std::string_view name, std::string_view kind, std::string_view help, auto value) {
  fmt::format_to(std::back_inserter(*out), "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, kind, value);
}

}  // namespace

void Histogram::Add(std::chrono::nanoseconds value) {
  const double seconds = std::chrono::duration<double>(value).count();
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += seconds;
}

void Histogram::Render(std::string_view name, std::string_view help, std::string* out) const {
  auto to = std::back_inserter(*out);
  fmt::format_to(to, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    fmt::format_to(to, "{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  below += counts_.back();
  fmt::format_to(to, "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, below, sum_);
}

void Metrics::RunEnded(RunStatus status, std::chrono::nanoseconds took) {
  ++runs_[static_cast<size_t>(status)];
  run_.Add(took);
}

void Metrics::Answered(int status) {
  if (status == 401 || status == 403) ++refused_auth_;
  if (status == 429) ++refused_quota_;
}

void Metrics::LoopLagged(std::chrono::nanoseconds lag) {
  loop_lag_.Add(lag);
  longest_lag_ = std::max(longest_lag_, lag);
}

std::string Metrics::Render(const Gauges& gauges) const {
  std::string out;
  Line(&out, "cella_sessions", "gauge", "Sessions that are alive.", gauges.sessions);
  const uint64_t over = std::accumulate(runs_.begin(), runs_.end(), uint64_t{0}) + gauges.queued;
  Line(&out, "cella_runs_running", "gauge", "Runs that are on.", runs_accepted_ - std::min(over, runs_accepted_));
  Line(&out, "cella_runs_queued", "gauge", "Runs that wait for the one before them.", gauges.queued);
  Line(&out, "cella_connections", "gauge", "Open connections.", gauges.connections);
  Line(&out, "cella_zygotes", "gauge", "Warm interpreters that sessions are forked from.", gauges.ready.zygotes);
  Line(&out, "cella_pooled_shells", "gauge", "Empty jails made ahead of demand.", gauges.ready.jails);
  Line(&out, "cella_pooled_sessions", "gauge", "Whole sessions made ahead of demand.", gauges.ready.parked);
  Line(&out, "cella_session_memory_bytes", "gauge", "Memory charged to all sessions.", gauges.memory);
  Line(&out, "cella_registry_failures_total", "counter", "Writes to the registry that failed.",
       gauges.registry_failures);
  Line(&out, "cella_runs_accepted_total", "counter", "Runs that were accepted.", runs_accepted_);
  Line(&out, "cella_refused_access_total", "counter", "Requests refused with 401 or 403.", refused_auth_);
  Line(&out, "cella_refused_quota_total", "counter", "Requests refused with 429.", refused_quota_);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "# HELP cella_runs_total Runs that ended, by status.\n# TYPE cella_runs_total counter\n");
  for (size_t i = 0; i < kStatuses; ++i) {
    fmt::format_to(to, "cella_runs_total{{status=\"{}\"}} {}\n", ToString(static_cast<RunStatus>(i)), runs_[i]);
  }
  session_start_.Render("cella_session_start_seconds", "From a request to an open session.", &out);
  run_.Render("cella_run_seconds", "From acceptance to the end of a run.", &out);
  loop_lag_.Render("cella_loop_lag_seconds", "How late the loop continues a task that slept.", &out);
  Line(&out, "cella_loop_lag_seconds_max", "gauge", "The longest of these since the start.",
       std::chrono::duration<double>(longest_lag_).count());
  return out;
}

}  // namespace cella::server
