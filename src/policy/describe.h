// The table for people and programs: types in words, as a JSON schema, and as docs/policy-keys.json. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "policy/keys.h"

namespace cella::policy {

// "size", "one of none, host"
std::string DescribeKind(const Key& key);
// The default as people write it; what no value means, where there is none.
std::string DescribeDefault(const Key& key);
// Of the Policy document, with the bounds of a server that has these maxima.
nlohmann::ordered_json DescribeDocument(const SessionSpec& maxima);
// docs/policy-keys.json: every row.
nlohmann::ordered_json DescribeKeys();

}  // namespace cella::policy
