#include "policy/container_values.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cella::policy {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

TEST(ContainerValuesTest, ReadsNamesOfMachines) {
  auto hosts = ReadHosts(json{{"a.example", "192.0.2.1"}, {"gate", "host-gateway"}});
  ASSERT_TRUE(hosts) << hosts.error();
  EXPECT_EQ(hosts->size(), 2u);
  auto host = ParseHost("b:2001:db8::1");
  ASSERT_TRUE(host) << host.error();
  EXPECT_EQ(host->second, "2001:db8::1");
  for (const json& value : {json("a"), json{{"a", 1}}, json{{"a", "b"}}, json{{"a b", "192.0.2.1"}},
                            json{{"", "192.0.2.1"}}, json{{"a", "192.0.2.1\n192.0.2.2 b"}}}) {
    EXPECT_FALSE(ReadHosts(value)) << value;
  }
  for (const char* text : {"", "a", "a:", ":192.0.2.1", "-a:192.0.2.1"}) EXPECT_FALSE(ParseHost(text)) << text;
}

TEST(ContainerValuesTest, ReadsDevices) {
  EXPECT_EQ(json::parse(*ParseDevices("all")), json::array({{{"Count", -1}, {"Capabilities", {{"gpu"}}}}}));
  EXPECT_EQ(json::parse(*ParseDevices("device=0,1"))[0]["DeviceIDs"], json({"0", "1"}));
  EXPECT_EQ(json::parse(*ParseDevices("2"))[0]["Count"], 2);
  EXPECT_TRUE(ParseDevices(R"([{"Driver": "nvidia", "Count": 1, "Options": {"a": "b"}}])"));
  for (const char* text : {"", "none", "0", "-1", "12345", "device=", "[]", "[{}, 1]", R"([{"Privileged": true}])",
                           R"([{"Count": "1"}])", R"([{"DeviceIDs": "0"}])", "[{"}) {
    EXPECT_FALSE(ParseDevices(text)) << text;
  }
}

TEST(ContainerValuesTest, ReadsCapabilitiesWithoutPrefixAndOnce) {
  EXPECT_THAT(*ReadCapabilities(json({"CAP_NET_RAW", "NET_RAW", "SYS_PTRACE"})), ElementsAre("NET_RAW", "SYS_PTRACE"));
  for (const json& value : {json("NET_RAW"), json({"ALL"}), json({"CAP_ALL"}), json({"net_raw"}), json({""}),
                            json::array({1}), json({"NET RAW"})}) {
    EXPECT_FALSE(ReadCapabilities(value)) << value;
  }
}

}  // namespace
}  // namespace cella::policy
