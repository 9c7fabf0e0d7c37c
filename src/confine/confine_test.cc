#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "confine/env_vars.h"
#include "confine/identity.h"
#include "confine/launch_errors.h"
#include "confine/limits.h"

namespace cella::confine {
namespace {

using testing::HasSubstr;

LimitContext Machine(Confinement confinement, bool cgroups, bool private_workspace = true) {
  LimitContext context;
  context.confinement = confinement;
  context.private_workspace = private_workspace;
  context.open_files_maximum = 4096;
  context.has_cpu = context.has_memory = context.has_pids = context.has_cpuacct = cgroups;
  context.cgroup_reason = "no delegated cgroup: start it in a scope";
  return context;
}

TEST(LimitsTest, WithCgroupsLimitsAreEnforcedByCgroup) {
  auto plan = PlanLimits(Policy{}, Machine(Confinement::kJail, true));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->enforced["memory"].by, "cgroup");
  EXPECT_EQ(plan->enforced["pids"].by, "cgroup");
  EXPECT_EQ(plan->cgroup.pids, 129u) << "init is one of them";
  EXPECT_EQ(plan->exec.data_bytes, 0u) << "no second, stricter memory limit";
  EXPECT_FALSE(plan->strict_memory);
}

TEST(LimitsTest, WithoutCgroupsAJailReportsItsFallbacks) {
  auto plan = PlanLimits(Policy{}, Machine(Confinement::kJail, false));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->enforced["memory"].by, "rlimit+watchdog");
  EXPECT_EQ(plan->enforced["pids"].by, "rlimit");
  EXPECT_EQ(plan->enforced["cpu_time"].by, "rlimit+watchdog");
  EXPECT_EQ(plan->exec.data_bytes, 1u << 30);
  EXPECT_EQ(plan->watch.memory_bytes, 1u << 30);
  EXPECT_TRUE(plan->strict_memory);
}

TEST(LimitsTest, LocalExecutorCountsProcessesByWatchdog) {
  auto plan = PlanLimits(Policy{}, Machine(Confinement::kNone, false));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->enforced["pids"].by, "watchdog");
  EXPECT_EQ(plan->exec.processes, 0u) << "RLIMIT_NPROC would count the caller's other processes";
}

TEST(LimitsTest, UnenforceableLimitIsRejectedOrReported) {
  Policy policy;
  policy.limits.cpus = 1.5;
  auto refused = PlanLimits(policy, Machine(Confinement::kJail, false));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("cpus"));
  EXPECT_THAT(refused.error().message, HasSubstr("start it in a scope"));
  policy.best_effort = true;
  auto plan = PlanLimits(policy, Machine(Confinement::kJail, false));
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->unenforced, testing::ElementsAre("cpus"));
  EXPECT_EQ(plan->enforced["cpus"].by, "none");
}

TEST(LimitsTest, RejectsRequestedDiskLimitOnHostDirectory) {
  Policy policy;
  auto by_default = PlanLimits(policy, Machine(Confinement::kJail, true, false));
  ASSERT_TRUE(by_default.has_value());
  EXPECT_EQ(by_default->enforced["disk"].by, "rlimit");
  policy.limits.disk = {1 << 20, true};
  EXPECT_FALSE(PlanLimits(policy, Machine(Confinement::kJail, true, false)).has_value());
  EXPECT_TRUE(PlanLimits(policy, Machine(Confinement::kJail, true, true)).has_value());
}

TEST(LimitsTest, RejectsOpenFilesAboveTheCallersLimit) {
  Policy policy;
  policy.limits.open_files = {100000, true};
  EXPECT_FALSE(PlanLimits(policy, Machine(Confinement::kJail, true)).has_value());
}

TEST(IdentityTest, OrdinaryUserKeepsItsUid) {
  auto identity = ChooseIdentity(7, 1000, 1000, false, "");
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->mode, BuildMode::kOrdinary);
}

TEST(IdentityTest, RootsGuestGetsAnUnusedUnprivilegedUid) {
  auto one = ChooseIdentity(7, 0, 0, true, "0 0 4294967295\n");
  auto two = ChooseIdentity(8, 0, 0, true, "0 0 4294967295\n");
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ(one->mode, BuildMode::kPrivileged);
  EXPECT_GT(one->host_uid, 0x6fffffffu);
  EXPECT_NE(one->host_uid, two->host_uid);
}

TEST(IdentityTest, InAContainerTheUidComesFromItsMap) {
  auto identity = ChooseIdentity(7, 0, 0, false, "0 100000 65536\n");
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->mode, BuildMode::kDropFirst);
  EXPECT_GT(identity->host_uid, 0u);
  EXPECT_LT(identity->host_uid, 65536u);
}

TEST(IdentityTest, RejectsMapsThatWouldMakeTheGuestHostRoot) {
  EXPECT_FALSE(ChooseIdentity(7, 0, 0, true, "0 0 1\n").has_value());
  auto single = ChooseIdentity(7, 0, 0, true, "0 1000 1\n");
  ASSERT_TRUE(single.has_value()) << "root of `unshare -r` is an ordinary user outside";
  EXPECT_EQ(single->mode, BuildMode::kOrdinary);
  for (uint32_t number = 0; number < 200000; number += 997) {
    auto identity = ChooseIdentity(number, 0, 0, true, "0 0 65536\n");
    ASSERT_TRUE(identity.has_value());
    EXPECT_NE(identity->host_uid, 0u);
    EXPECT_NE(identity->host_uid, 65534u);
    EXPECT_LT(identity->host_uid, 65536u);
  }
}

TEST(EnvironmentTest, PlanAndPolicyOverrideDefaultsAndToolsPrecedePath) {
  EnvVars base;
  base.Set("PATH", "/usr/bin");
  base.Set("HOME", "/tmp");
  language::Plan plan;
  plan.path_dirs = {"/opt/py/bin"};
  plan.env = {{"A", "1"}};
  Policy policy;
  policy.env = {{"A", "2"}, {"B", "x=y"}};
  EnvVars environment = GuestEnvVars(std::move(base), plan, policy);
  EXPECT_THAT(environment.Encode(),
              testing::UnorderedElementsAre("PATH=/opt/py/bin:/usr/bin", "HOME=/tmp", "A=2", "B=x=y"));
}

TEST(LaunchErrorsTest, FailedStepMessageNamesObjectAndRemedy) {
  jail::Report report = {};
  report.stage = jail::Stage::kUserNamespace;
  report.error = ENOSPC;
  Error error = ExplainBuildFailure(report);
  EXPECT_THAT(error.message, HasSubstr("create a user namespace"));
  EXPECT_THAT(error.message, HasSubstr("user.max_user_namespaces"));
  report.stage = jail::Stage::kExec;
  report.error = ENOENT;
  std::snprintf(report.detail, sizeof report.detail, "ruby");
  error = ExplainExecFailure(report);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("'ruby'"));
}

}  // namespace
}  // namespace cella::confine
