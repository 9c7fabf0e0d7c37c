// Names of artifacts and workflows, which guests and clients choose. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cella::storage {

inline constexpr size_t kMaxArtifactName = 255;
inline constexpr size_t kMaxWorkflowName = 64;

// "reports/june.json": a relative path of at most 255 bytes, without "..", control characters and names of ours.
Status CheckArtifactName(std::string_view name);

// [A-Za-z][A-Za-z0-9_]*, no word of Python, and no function of `workflows` itself.
Status CheckWorkflowName(std::string_view name);

// What a client wrote, short enough for a message.
std::string Shown(std::string_view text);

// Guests and clients do not see where on the host a storage is: names in the message become relative to `directory`.
std::string WithoutPath(std::string message, const std::string& directory);

bool IsUtf8(std::string_view text);

}  // namespace cella::storage
