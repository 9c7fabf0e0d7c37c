#include "jupyter/connection_file.h"

#include <gtest/gtest.h>

#include <set>

#include "jupyter/json.h"

namespace cella::jupyter {
namespace {

TEST(ConnectionFileTest, NamesFiveSocketsOfADirectory) {
  auto connection = MakeIpcConnection(std::make_shared<const UniqueFd>(), "/tmp", "python3");
  ASSERT_TRUE(connection.has_value());
  const Json json = Json::parse(connection->Encode());
  EXPECT_EQ(json["transport"], "ipc");
  EXPECT_EQ(json["ip"], "/tmp/k");
  EXPECT_EQ(json["signature_scheme"], "hmac-sha256");
  EXPECT_EQ(json["key"].get<std::string>().size(), 36U);
  // A kernel listens at "<ip>-<port>".
  EXPECT_EQ(connection->EndpointOf(Channel::kIopub).name, fmt::format("k-{}", json["iopub_port"].get<int>()));
  EXPECT_NE(connection->EndpointOf(Channel::kShell).name, connection->EndpointOf(Channel::kControl).name);
}

TEST(ConnectionFileTest, RejectsAPathThatIsTooLongForASocket) {
  auto connection = MakeIpcConnection(std::make_shared<const UniqueFd>(), "/" + std::string(120, 'd'), "python3");
  ASSERT_FALSE(connection.has_value());
  EXPECT_NE(connection.error().message.find("TMPDIR"), std::string::npos);
}

TEST(ConnectionFileTest, ChoosesDifferentPorts) {
  auto connection = MakeTcpConnection("python3");
  ASSERT_TRUE(connection.has_value());
  const std::set<uint16_t> ports(connection->ports.begin(), connection->ports.end());
  EXPECT_EQ(ports.size(), kChannels);
  EXPECT_FALSE(ports.contains(0));
  EXPECT_EQ(Json::parse(connection->Encode())["ip"], "127.0.0.1");
}

TEST(ConnectionFileTest, MakesUuidsOfVersion4) {
  auto a = MakeUuid(), b = MakeUuid();
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ((*a)[14], '4');
}

}  // namespace
}  // namespace cella::jupyter
