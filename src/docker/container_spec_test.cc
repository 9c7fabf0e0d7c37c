#include "docker/container_spec.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cella::docker {
namespace {

using Json = nlohmann::json;

ContainerSpec Limited() {
  ContainerSpec spec;
  spec.image = "an/image:1";
  spec.memory = 64 << 20;
  spec.cpus = 1.5;
  spec.pids = 20;
  return spec;
}

// What an engine that takes everything would report.
std::string Accepted(const ContainerSpec& spec) {
  Json body = Json::parse(EncodeContainer(spec));
  return Json({{"Id", "abc"},
               {"Name", "/a-name"},
               {"State", {{"Status", "running"}, {"Running", true}, {"Pid", 12}}},
               {"Config", {{"Labels", body["Labels"]}}},
               {"HostConfig", body["HostConfig"]}})
      .dump();
}

TEST(ContainerSpecTest, ForbidsWhatIsNotAskedFor) {
  Json host = Json::parse(EncodeContainer(Limited()))["HostConfig"];
  EXPECT_EQ(host["NetworkMode"], "none");
  EXPECT_EQ(host["CapDrop"], Json({"ALL"}));
  EXPECT_EQ(host["SecurityOpt"], Json({"no-new-privileges"}));
  EXPECT_TRUE(host["ReadonlyRootfs"]);
  EXPECT_EQ(host["LogConfig"]["Type"], "none");
  EXPECT_EQ(host["MemorySwap"], host["Memory"]);
  EXPECT_EQ(host["NanoCpus"], 1500000000);
  EXPECT_FALSE(host.contains("Binds"));
}

TEST(ContainerSpecTest, FindsNothingMissingWhenAllWasTaken) {
  auto facts = DecodeContainer(Accepted(Limited()));
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->name, "a-name");
  EXPECT_EQ(facts->pid, 12);
  EXPECT_THAT(CompareWithRequest(Limited(), *facts), testing::IsEmpty());
}

TEST(ContainerSpecTest, NamesEveryLimitThatTheEngineDropped) {
  auto facts = DecodeContainer(Accepted(Limited()));
  ASSERT_TRUE(facts);
  facts->memory = 0;
  facts->nano_cpus = 0;
  facts->pids_limit = 0;
  facts->network = "bridge";
  facts->read_only_root = false;
  facts->cap_drop.clear();
  facts->security_opt.clear();
  std::vector<std::string> names;
  for (const Missing& missing : CompareWithRequest(Limited(), *facts)) names.push_back(missing.name);
  EXPECT_THAT(names, testing::ElementsAre("memory", "cpus", "pids", "network", "read_only", "capabilities",
                                          "no_new_privileges"));
}

TEST(ContainerSpecTest, NoticesSwapThatWasAllowed) {
  auto facts = DecodeContainer(Accepted(Limited()));
  facts->memory_swap = -1;
  auto missing = CompareWithRequest(Limited(), *facts);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].name, "swap");
}

TEST(ContainerSpecTest, NoticesCapabilitiesThatWereNotAskedFor) {
  ContainerSpec spec = Limited();
  spec.cap_add = {"NET_RAW"};
  auto facts = DecodeContainer(Accepted(spec));
  ASSERT_TRUE(facts);
  facts->cap_add = {"CAP_NET_RAW"};
  EXPECT_THAT(CompareWithRequest(spec, *facts), testing::IsEmpty());
  facts->cap_add.emplace_back("CAP_SYS_ADMIN");
  auto missing = CompareWithRequest(spec, *facts);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].name, "cap_add");
}

TEST(ContainerSpecTest, RejectsWhatIsNoContainer) {
  EXPECT_FALSE(DecodeContainer("[]"));
  EXPECT_FALSE(DecodeContainer("{"));
  EXPECT_TRUE(DecodeContainer(R"({"State": 3, "HostConfig": [], "Config": null})"));
}

}  // namespace
}  // namespace cella::docker
