#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cella {

// Line breaks are ignored. kInvalid: it is not base64.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace cella
