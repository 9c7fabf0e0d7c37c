// Reads cella.toml into a Config by the table of config_keys.h. Every refusal says where: "cella.toml:3:1: …".
#pragma once

#include <string>
#include <string_view>

#include "server/config.h"

namespace cella::server {

// `origin` is what messages call the text. Starts from the defaults; neither completed nor checked.
Result<Config> ParseConfig(std::string_view text, std::string_view origin);
Result<Config> ReadConfig(const std::string& path);

}  // namespace cella::server
