#include "environment/uv_settings.h"

#include <toml++/toml.h>

#include "os/io.h"

namespace cella::environment {
namespace {

constexpr uint64_t kMaxFile = 256 * 1024;

std::string Text(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  return node != nullptr && node->is_string() ? node->as_string()->get() : std::string();
}

std::vector<std::string> Texts(const toml::table& table, std::string_view key) {
  std::vector<std::string> texts;
  const toml::node* node = table.get(key);
  if (node == nullptr || !node->is_array()) return texts;
  for (const toml::node& item : *node->as_array()) {
    if (item.is_string()) texts.push_back(item.as_string()->get());
  }
  return texts;
}

void AddTable(const toml::table& table, IndexSettings* settings) {
  if (auto url = Text(table, "index-url"); !url.empty()) {
    settings->index_url = url;
    settings->no_index = false;
  }
  if (const toml::node* none = table.get("no-index"); none != nullptr && none->is_boolean()) {
    settings->no_index = none->as_boolean()->get();
  }
  if (auto urls = Texts(table, "extra-index-url"); !urls.empty()) settings->extra_index_urls = urls;
  if (auto links = Texts(table, "find-links"); !links.empty()) settings->find_links = links;
  if (auto hosts = Texts(table, "allow-insecure-host"); !hosts.empty()) settings->trusted_hosts = hosts;
  const toml::node* indexes = table.get("index");
  if (indexes == nullptr || !indexes->is_array()) return;
  std::vector<std::string> extra;
  for (const toml::node& item : *indexes->as_array()) {
    if (!item.is_table()) continue;
    const toml::table& index = *item.as_table();
    const toml::node* is_default = index.get("default");
    if (is_default != nullptr && is_default->is_boolean() && is_default->as_boolean()->get()) {
      settings->index_url = Text(index, "url");
      settings->no_index = false;
    } else {
      extra.push_back(Text(index, "url"));
    }
  }
  if (!extra.empty()) settings->extra_index_urls = extra;
}

}  // namespace

Status AddUvFiles(const Lookup& variable, IndexSettings* settings) {
  const std::string home = variable("HOME"), xdg = variable("XDG_CONFIG_HOME"), named = variable("UV_CONFIG_FILE");
  std::vector<std::string> files = {"/etc/uv/uv.toml"};
  if (!xdg.empty() || !home.empty()) files.push_back((xdg.empty() ? home + "/.config" : xdg) + "/uv/uv.toml");
  if (!named.empty()) files = {named};
  for (const std::string& file : files) {
    auto text = os::ReadFile(file, kMaxFile);
    if (!text && named.empty()) continue;
    if (!text) return std::unexpected(std::move(text.error()).WithContext("UV_CONFIG_FILE"));
    auto parsed = toml::parse(*text);
    if (!parsed) {
      return Err(ErrorCode::kInvalid, "'{}' is not TOML: {}", file, std::string(parsed.error().description()));
    }
    AddTable(parsed.table(), settings);
  }
  return {};
}

}  // namespace cella::environment
