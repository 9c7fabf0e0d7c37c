#include "confine/block_usage.h"

namespace cella::confine {
namespace {

using std::chrono::nanoseconds;

double InMilliseconds(nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

}  // namespace

void BlockUsage::Begin(const std::optional<os::CgroupUsage>& now) {
  if (!now) return;
  if (!cpu_before_) cpu_before_ = now->cpu.value_or(nanoseconds(0));
  oom_kills_before_ = now->oom_kills.value_or(0);
  refused_forks_before_ = now->pids_refused.value_or(0);
}

std::optional<nanoseconds> BlockUsage::Cpu(const std::optional<os::CgroupUsage>& now) const {
  if (!now || !now->cpu) return std::nullopt;
  return *now->cpu - cpu_before_.value_or(nanoseconds(0));
}

void BlockUsage::AddTo(run::RunFacts* facts, const std::optional<os::CgroupUsage>& now) const {
  if (!now) return;
  if (auto cpu = Cpu(now)) facts->usage.cpu_ms = InMilliseconds(*cpu);
  facts->usage.peak_memory = now->peak_memory.value_or(facts->usage.peak_memory);
  facts->oom_kills = now->oom_kills.value_or(0) - oom_kills_before_;
  facts->refused_forks = now->pids_refused.value_or(0) - refused_forks_before_;
}

MeteredUsage::MeteredUsage(const os::CgroupMeter& meter)
    : meter_(meter),
      cpu_before_(meter.Cpu().value_or(nanoseconds(0))),
      oom_kills_before_(meter.OomKills()),
      refused_forks_before_(meter.RefusedForks()) {}

std::optional<nanoseconds> MeteredUsage::Cpu() const {
  const auto now = meter_.Cpu();
  if (!now) return std::nullopt;
  return *now - cpu_before_;
}

void MeteredUsage::AddTo(run::RunFacts* facts) const {
  facts->usage.peak_memory = meter_.PeakMemory().value_or(0);
  if (auto cpu = Cpu()) facts->usage.cpu_ms = InMilliseconds(*cpu);
  using Status = run::GuestAnswer::Status;
  if (facts->answer && facts->answer->status != Status::kError && facts->answer->exit_code == 0) return;
  facts->oom_kills = meter_.OomKills() - oom_kills_before_;
  facts->refused_forks = meter_.RefusedForks() - refused_forks_before_;
}

}  // namespace cella::confine
