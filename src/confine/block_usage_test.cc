#include "confine/block_usage.h"

#include <gtest/gtest.h>

namespace cella::confine {
namespace {

using namespace std::chrono_literals;

os::CgroupUsage At(std::chrono::nanoseconds cpu, uint64_t oom_kills, uint64_t refused) {
  return {.cpu = cpu, .peak_memory = 4096, .oom_kills = oom_kills, .pids_refused = refused};
}

TEST(BlockUsageTest, CpuCountsFromTheFirstProgramAndKillsFromTheLast) {
  BlockUsage usage;
  usage.Begin(At(10ms, 1, 1));
  usage.Begin(At(30ms, 2, 4));
  run::RunFacts facts;
  usage.AddTo(&facts, At(50ms, 3, 9));
  EXPECT_EQ(facts.usage.cpu_ms, 40);
  EXPECT_EQ(facts.usage.peak_memory, 4096u);
  EXPECT_EQ(facts.oom_kills, 1u);
  EXPECT_EQ(facts.refused_forks, 5u);
  EXPECT_EQ(usage.Cpu(At(50ms, 0, 0)), 40ms);
}

TEST(BlockUsageTest, WithoutCountersTheFactsStayAsTheyAre) {
  BlockUsage usage;
  usage.Begin(std::nullopt);
  run::RunFacts facts;
  facts.usage.cpu_ms = 7;
  facts.usage.peak_memory = 5;
  usage.AddTo(&facts, std::nullopt);
  usage.AddTo(&facts, os::CgroupUsage{});
  EXPECT_EQ(facts.usage.cpu_ms, 7);
  EXPECT_EQ(facts.usage.peak_memory, 5u);
  EXPECT_FALSE(usage.Cpu(std::nullopt));
}

}  // namespace
}  // namespace cella::confine
