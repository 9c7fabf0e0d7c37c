// uv's own configuration files. They block on the file system.
#pragma once

#include "environment/index_settings.h"

namespace cella::environment {

// Index URLs and directories of /etc/uv/uv.toml, then of the user's uv.toml, or of the one that UV_CONFIG_FILE names.
Status AddUvFiles(const Lookup& variable, IndexSettings* settings);

}  // namespace cella::environment
