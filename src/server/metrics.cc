#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cella::server {
namespace {

void Head(std::string* out, std::string_view name, std::string_view kind, std::string_view help) {
  fmt::format_to(std::back_inserter(*out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, kind);
}

void Line(std::string* out, std::string_view name, std::string_view kind, std::string_view help, auto value) {
  Head(out, name, kind, help);
  fmt::format_to(std::back_inserter(*out), "{} {}\n", name, value);
}

std::string LabelOf(ExecutorKind executor) { return fmt::format("executor=\"{}\"", ToString(executor)); }

// A sample for each executor.
template <typename F>
void Lines(std::string* out, const Metrics::Gauges& gauges, std::string_view name, std::string_view kind,
           std::string_view help, F value) {
  Head(out, name, kind, help);
  for (const Metrics::ExecutorGauges& each : gauges.executors) {
    fmt::format_to(std::back_inserter(*out), "{}{{{}}} {}\n", name, LabelOf(each.executor), value(each));
  }
}

}  // namespace

void Histogram::Add(std::chrono::nanoseconds value) {
  const double seconds = std::chrono::duration<double>(value).count();
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += seconds;
}

void Histogram::Render(std::string_view name, std::string_view labels, std::string* out) const {
  auto to = std::back_inserter(*out);
  const std::string_view comma = labels.empty() ? "" : ",";
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    fmt::format_to(to, "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, kBounds[i], below);
  }
  below += counts_.back();
  fmt::format_to(to, "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, below);
  const std::string set = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  fmt::format_to(to, "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, set, sum_, below);
}

void Metrics::RunEnded(ExecutorKind executor, RunStatus status, std::chrono::nanoseconds took) {
  Counts& counts = Of(executor);
  ++counts.runs[static_cast<size_t>(status)];
  counts.run.Add(took);
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
  auto of = [this](const ExecutorGauges& each) -> const Counts& { return counts_[IndexOf(each.executor)]; };
  Lines(&out, gauges, "cella_sessions", "gauge", "Sessions that are alive.", [](auto& each) { return each.sessions; });
  Lines(&out, gauges, "cella_runs_running", "gauge", "Runs that are on.", [&](auto& each) {
    const Counts& counts = of(each);
    const uint64_t over = std::accumulate(counts.runs.begin(), counts.runs.end(), uint64_t{0}) + each.queued;
    return counts.runs_accepted - std::min(over, counts.runs_accepted);
  });
  Lines(&out, gauges, "cella_runs_queued", "gauge", "Runs that wait for the one before them.",
        [](auto& each) { return each.queued; });
  Line(&out, "cella_connections", "gauge", "Open connections.", gauges.connections);
  Lines(&out, gauges, "cella_zygotes", "gauge", "Warm interpreters that sessions are forked from.",
        [](auto& each) { return each.ready.zygotes; });
  Lines(&out, gauges, "cella_pooled_shells", "gauge", "Empty jails made ahead of demand.",
        [](auto& each) { return each.ready.jails; });
  Lines(&out, gauges, "cella_pooled_sessions", "gauge", "Whole sessions made ahead of demand.",
        [](auto& each) { return each.ready.parked; });
  Lines(&out, gauges, "cella_session_memory_bytes", "gauge", "Memory charged to all sessions.",
        [](auto& each) { return each.memory; });
  Line(&out, "cella_registry_failures_total", "counter", "Writes to the registry that failed.",
       gauges.registry_failures);
  Lines(&out, gauges, "cella_runs_accepted_total", "counter", "Runs that were accepted.",
        [&](auto& each) { return of(each).runs_accepted; });
  Line(&out, "cella_refused_access_total", "counter", "Requests refused with 401 or 403.", refused_auth_);
  Line(&out, "cella_refused_quota_total", "counter", "Requests refused with 429.", refused_quota_);
  Head(&out, "cella_runs_total", "counter", "Runs that ended, by status.");
  for (const ExecutorGauges& each : gauges.executors) {
    for (size_t i = 0; i < kStatuses; ++i) {
      fmt::format_to(std::back_inserter(out), "cella_runs_total{{{},status=\"{}\"}} {}\n", LabelOf(each.executor),
                     ToString(static_cast<RunStatus>(i)), of(each).runs[i]);
    }
  }
  Head(&out, "cella_session_start_seconds", "histogram", "From a request to an open session.");
  for (const ExecutorGauges& each : gauges.executors) {
    of(each).session_start.Render("cella_session_start_seconds", LabelOf(each.executor), &out);
  }
  Head(&out, "cella_run_seconds", "histogram", "From acceptance to the end of a run.");
  for (const ExecutorGauges& each : gauges.executors) {
    of(each).run.Render("cella_run_seconds", LabelOf(each.executor), &out);
  }
  Head(&out, "cella_loop_lag_seconds", "histogram", "How late the loop continues a task that slept.");
  loop_lag_.Render("cella_loop_lag_seconds", "", &out);
  Line(&out, "cella_loop_lag_seconds_max", "gauge", "The longest of these since the start.",
       std::chrono::duration<double>(longest_lag_).count());
  return out;
}

}  // namespace cella::server
