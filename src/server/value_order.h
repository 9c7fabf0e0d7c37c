// The order of keys in the values of a run: the reader of bodies sorts the keys of objects, and code of a guest sees
// the order that its caller wrote. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cella::server {

// `document` was read from `text`. Its "variables" that are objects or lists become {"$json": TEXT}, in which keys and
// numbers are as they were written.
void KeepOrderOfVariables(std::string_view text, nlohmann::json* document);

}  // namespace cella::server
