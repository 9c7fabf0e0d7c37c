// Words that people give to things: which are accepted, how they are shown in messages, and which was probably meant.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cella::policy {

// What a client or a file wrote, short enough for a message.
std::string Shown(std::string_view text);

// The known word that was probably meant; empty: none is near.
std::string_view Nearest(std::string_view word, const std::vector<std::string_view>& known);
// "unknown key 'memry'; did you mean 'memory'?", or with all that there are.
std::string UnknownKey(std::string_view key, const std::vector<std::string_view>& known);

// [A-Za-z0-9], then also '.', '_' and '-'; at most 64: for clients, sessions and whatever stands in paths and logs.
bool IsName(std::string_view text);

// [A-Za-z_][A-Za-z0-9_]*
bool IsVariableName(std::string_view text);
// Names joined by dots, as Python imports them.
bool IsModuleName(std::string_view text);

}  // namespace cella::policy
