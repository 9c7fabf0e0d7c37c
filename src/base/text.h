// Bytes from guests, made presentable.
#pragma once

#include <string>
#include <string_view>

namespace cella {

// Valid UTF-8: every malformed byte becomes U+FFFD. Never fails.
std::string ToUtf8Lossy(std::string_view bytes);

// The number of bytes at the end that may be the beginning of a longer character: to be kept until more arrives.
size_t IncompleteUtf8Tail(std::string_view bytes);

// Whether a JSON text has lists and objects inside each other beyond that depth. Valid JSON is not required.
bool NestsDeeperThan(std::string_view json, int depth);

}  // namespace cella
