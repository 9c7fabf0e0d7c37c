#include "executor/sandbox/session_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "policy/key_samples.h"
#include "policy/read.h"

namespace cella::executor {
namespace {

// A key that is missing here gives a client a session of another policy. It may be missing only if the guest cannot
// notice it, or if sessions that have it are never made ahead of demand.
TEST(PoolKeyTest, TellsSessionsOfDifferentPoliciesApart) {
  const std::set<std::string_view> not_in_the_guest{"limits.calls",
                                                    "limits.calls_at_once",
                                                    "limits.call_size",
                                                    "executor",
                                                    "environment",
                                                    "deps",
                                                    "allow_runtime_deps",
                                                    "storage",
                                                    "idle_timeout",
                                                    "max_lifetime",
                                                    "name",
                                                    "labels"};
  const std::set<std::string_view> never_interchangeable{"workdir", "mounts"};
  for (const policy::Key& key : policy::Keys()) {
    run::GuestSpec spec;
    ASSERT_TRUE(policy::Set(key, policy::SampleOf(key), &spec)) << key.name;
    EXPECT_EQ(PoolKey(spec) == PoolKey({}), not_in_the_guest.contains(key.name)) << key.name;
    EXPECT_EQ(IsInterchangeable(spec), !never_interchangeable.contains(key.name)) << key.name;
  }
}

TEST(PoolKeyTest, TellsSessionsWithOtherCallsApart) {
  run::GuestSpec spec;
  spec.spaces = {"tools"};
  EXPECT_NE(PoolKey(spec), PoolKey({}));
}

TEST(PlanKeyTest, ClientsWithPackagesOfTheirChoiceShareNothing) {
  run::GuestSpec ann, bob;
  ann.tenant.client = "ann";
  bob.tenant.client = "bob";
  EXPECT_NE(PlanKey(ann, {}), PlanKey(bob, {}));
  EXPECT_NE(PlanKey(ann, {}), PlanKey({}, {}));
  EXPECT_NE(PoolKey(ann), PoolKey(bob));
  ann.tenant.interpreters = 3;
  bob.tenant.client = "ann";
  EXPECT_EQ(PlanKey(ann, {}), PlanKey(bob, {}));
}

TEST(PlanKeyTest, ChangesWithWhatThePlanIsMadeOf) {
  const std::set<std::string_view> of_the_plan{"python",
                                               "venv",
                                               "preload",
                                               "rootfs",
                                               "network",
                                               "kernel",
                                               "jail",
                                               "system_packages",
                                               "startup_timeout",
                                               "container.image",
                                               "container.pull",
                                               "container.mode",
                                               "container.fresh",
                                               "container.name",
                                               "container.runtime",
                                               "container.engine",
                                               "container.read_only",
                                               "container.bind_dir",
                                               "container.auth_token",
                                               "container.auth_disabled",
                                               "container.user",
                                               "container.extra_hosts",
                                               "container.device_requests",
                                               "container.cap_add",
                                               "container.init_command",
                                               "container.auto_remove",
                                               "container.stop_container"};
  for (const policy::Key& key : policy::Keys()) {
    run::GuestSpec spec;
    ASSERT_TRUE(policy::Set(key, policy::SampleOf(key), &spec)) << key.name;
    EXPECT_EQ(PlanKey(spec, {}) != PlanKey({}, {}), of_the_plan.contains(key.name)) << key.name;
  }
}

}  // namespace
}  // namespace cella::executor
