// JSON of a kernel, which may be hostile: nothing throws, and what is absent or of another type reads as empty.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cella::jupyter {

using Json = nlohmann::json;

// An object; nothing for other values, for broken text and for text that nests too deep or has too many elements.
std::optional<Json> ParseObject(std::string_view text);

std::string Text(const Json& json, const char* key);
bool Flag(const Json& json, const char* key);
int64_t Number(const Json& json, const char* key);
// The member, if it is an object; else an empty object.
const Json& Object(const Json& json, const char* key);
// Bytes that are no UTF-8 are replaced.
std::string Dump(const Json& json);

}  // namespace cella::jupyter
