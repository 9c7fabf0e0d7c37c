#include "docker/engine_address.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace cella::docker {
namespace {

using testing::HasSubstr;

EngineSurroundings Surroundings(std::map<std::string, std::string> variables, std::set<std::string> sockets = {},
                                unsigned uid = 1000) {
  EngineSurroundings surroundings;
  surroundings.variable = [variables](const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
  surroundings.is_socket = [sockets](const std::string& path) { return sockets.contains(path); };
  surroundings.uid = uid;
  return surroundings;
}

TEST(EngineAddressTest, PrefersTheNamedEngine) {
  auto found = FindEngine("unix:///a", Surroundings({{"DOCKER_HOST", "unix:///b"}}, {"/var/run/docker.sock"}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->url.ToString(), "unix:/a");
  EXPECT_EQ(found->source, "--engine");
}

TEST(EngineAddressTest, ReadsDockerHost) {
  EXPECT_EQ(FindEngine("", Surroundings({{"DOCKER_HOST", "unix:///b"}}))->url.ToString(), "unix:/b");
  EXPECT_EQ(FindEngine("", Surroundings({{"DOCKER_HOST", "tcp://h:1"}}))->url.ToString(), "http://h:1");
  EXPECT_EQ(FindEngine("", Surroundings({{"DOCKER_HOST", "tcp://h"}}))->url.ToString(), "http://h:2375");
}

TEST(EngineAddressTest, TakesCertificatesOfATlsEngine) {
  auto found = FindEngine(
      "", Surroundings({{"DOCKER_HOST", "tcp://h"}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", "/certs"}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->url.ToString(), "https://h:2376");
  EXPECT_EQ(found->ca_file, "/certs/ca.pem");
  EXPECT_EQ(found->certificate.certificate, "/certs/cert.pem");
  EXPECT_EQ(found->certificate.key, "/certs/key.pem");
}

TEST(EngineAddressTest, FindsUsualSocketsOfTheUser) {
  auto podman = "/run/user/1000/podman/podman.sock";
  EXPECT_EQ(FindEngine("", Surroundings({}, {podman}))->url.address.path, podman);
  EXPECT_EQ(FindEngine("", Surroundings({}, {podman, "/var/run/docker.sock"}))->url.address.path,
            "/var/run/docker.sock");
  EXPECT_EQ(FindEngine("", Surroundings({}, {"/run/podman/podman.sock"}, 0))->url.address.path,
            "/run/podman/podman.sock");
}

TEST(EngineAddressTest, NamesTheRemedyWithoutAnEngine) {
  auto found = FindEngine("", Surroundings({}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr("/var/run/docker.sock"));
  EXPECT_THAT(found.error().message, HasSubstr("DOCKER_HOST"));
}

TEST(EngineAddressTest, RejectsAnotherScheme) {
  auto found = FindEngine("ssh://host", Surroundings({}));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("unix:///PATH"));
}

}  // namespace
}  // namespace cella::docker
