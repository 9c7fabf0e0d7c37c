// The configuration as text: what `cella serve --check-config` prints, and the tables of docs/configuration.md.
#pragma once

#include <string>

#include "server/config.h"

namespace cella::server {

// cella.toml with every key as it holds, in the order of the documentation; reading it gives the same configuration.
// Values of variables are left out, since they may be secrets.
std::string RenderConfig(const Config& config);

// The sections and keys as Markdown.
std::string RenderKeyReference();

}  // namespace cella::server
