#include "environment/index_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "os/test_directory.h"

namespace cella::environment {
namespace {

Result<IndexSettings> Read(std::map<std::string, std::string, std::less<>> variables) {
  return ReadIndexSettings([&](std::string_view name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string ValueOf(const Variables& variables, std::string_view name) {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return {};
}

TEST(IndexSettingsTest, TranslatesPipForUv) {
  auto settings = Read({{"PIP_CONFIG_FILE", "/dev/null"},
                        {"PIP_INDEX_URL", "https://me:secret@index.example/simple"},
                        {"PIP_EXTRA_INDEX_URL", "https://a.example https://b.example"},
                        {"PIP_FIND_LINKS", "/ /no/such/directory"},
                        {"PIP_PROXY", "http://proxy.example:3128"}});
  ASSERT_TRUE(settings);
  const Variables uv = settings->ForUv();
  EXPECT_EQ(ValueOf(uv, "UV_DEFAULT_INDEX"), "https://me:secret@index.example/simple");
  EXPECT_EQ(ValueOf(uv, "UV_INDEX"), "https://a.example https://b.example");
  EXPECT_EQ(ValueOf(uv, "UV_FIND_LINKS"), "/");
  EXPECT_EQ(ValueOf(uv, "HTTPS_PROXY"), "http://proxy.example:3128");
  EXPECT_EQ(ValueOf(settings->ForPip(), "HTTPS_PROXY"), "http://proxy.example:3128");
  EXPECT_EQ(ValueOf(uv, "UV_PYTHON_DOWNLOADS"), "never");
  EXPECT_EQ(settings->Identity().find("secret"), std::string::npos);
}

TEST(IndexSettingsTest, SettingsOfUvOutweighThoseOfPip) {
  auto settings = Read({{"PIP_CONFIG_FILE", "/dev/null"},
                        {"PIP_INDEX_URL", "https://pip.example"},
                        {"UV_DEFAULT_INDEX", "https://uv.example"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->index_url, "https://uv.example");
}

TEST(IndexSettingsTest, TakesDirectoriesInsteadOfAnIndex) {
  auto settings =
      Read({{"PIP_CONFIG_FILE", "/dev/null"}, {"PIP_NO_INDEX", "True"}, {"PIP_FIND_LINKS", "file:///usr /no"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->Paths(), std::vector<std::string>{"/usr"});
  EXPECT_EQ(ValueOf(settings->ForUv(), "UV_NO_INDEX"), "1");
  EXPECT_EQ(ValueOf(settings->ForPip(), "PIP_NO_INDEX"), "1");
  auto with_uv =
      Read({{"PIP_CONFIG_FILE", "/dev/null"}, {"PIP_NO_INDEX", "1"}, {"UV_DEFAULT_INDEX", "https://uv.example"}});
  ASSERT_TRUE(with_uv);
  EXPECT_EQ(ValueOf(with_uv->ForUv(), "UV_NO_INDEX"), "");
}

TEST(IndexSettingsTest, ReadsTheSectionsOfIniFiles) {
  auto entries = ParseIni("[global]\nindex_url = https://x\nfind-links =\n  /a\n  /b\n; no\n[install]\ntimeout: 5\n");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0], (std::pair<std::string, std::string>("global.index-url", "https://x")));
  EXPECT_EQ(entries[1].second, "/a /b");
  EXPECT_EQ(entries[2].first, "install.timeout");
}

}  // namespace
}  // namespace cella::environment
