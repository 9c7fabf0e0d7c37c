// JSON from strangers: one object, with no key twice and nothing nested deeper than any request needs. Its size is
// bounded by whoever read the body. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/api_error.h"
#include "server/scalar.h"

namespace cella::server {

// Nothing at all is an empty object.
Answer<nlohmann::json> ParseJsonObject(std::string_view body);

// The text of a Scalar is that of `value`.
Scalar ToScalar(const nlohmann::json& value);

}  // namespace cella::server
