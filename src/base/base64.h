// Binary data in JSON. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cella {

// kInvalid: it is not base64. Line ends and missing padding are accepted.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace cella
