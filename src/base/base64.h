// Base64 (RFC 4648, section 4): binary data in JSON. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cella {

// With padding.
std::string EncodeBase64(std::string_view bytes);

// kInvalid: it is not base64. Line ends and missing padding are accepted.
Result<std::string> DecodeBase64(std::string_view text);

// Accepts only what EncodeBase64 writes: each value has one text.
Result<std::string> DecodeBase64Strictly(std::string_view text);

}  // namespace cella
