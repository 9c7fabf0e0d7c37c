// Base64 (RFC 4648, section 4), with padding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cella::storage {

std::string EncodeBase64(std::string_view bytes);

// Nothing where the text is not exactly that.
std::optional<std::string> DecodeBase64Strictly(std::string_view text);

}  // namespace cella::storage
