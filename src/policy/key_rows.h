// What the parts of the table (*_keys.h) share: accessors of fields, and sets of executors. For keys.cc alone.
#pragma once

#include "policy/keys.h"

#define CELLA_AT(path) (+[](SessionSpec& spec) { return &spec.path; })

#define CELLA_WORD(path, parse, all)                                      \
  (WordField{[](const SessionSpec& spec) { return ToString(spec.path); }, \
             [](SessionSpec& spec, std::string_view word) {               \
               auto value = parse(word);                                  \
               if (value) spec.path = *value;                             \
               return value.has_value();                                  \
             },                                                           \
             [] { return std::string_view(all); }})

namespace cella::policy {

inline constexpr Executors kConfined = Only(ExecutorKind::kSandbox, ExecutorKind::kContainer);
inline constexpr Executors kContainer = Only(ExecutorKind::kContainer);
// With the host's interpreters; a container has those of its image.
inline constexpr Executors kHostPython =
    Only(ExecutorKind::kSandbox, ExecutorKind::kLocal, ExecutorKind::kSubprocess, ExecutorKind::kInProcess);
inline constexpr Executors kKernel = Only(ExecutorKind::kSubprocess);
inline constexpr Executors kLayered = Only(ExecutorKind::kSandbox);
inline constexpr Executors kCheckpointed = Only(ExecutorKind::kSandbox, ExecutorKind::kContainer);
// Whose processes can call the host.
inline constexpr Executors kCalling = Only(ExecutorKind::kSandbox, ExecutorKind::kLocal, ExecutorKind::kSubprocess,
                                           ExecutorKind::kContainer, ExecutorKind::kInProcess);
// Packages are added to their sessions.
inline constexpr Executors kListed = Only(ExecutorKind::kSandbox, ExecutorKind::kContainer, ExecutorKind::kSubprocess,
                                          ExecutorKind::kLocal, ExecutorKind::kInProcess);
inline constexpr Executors kPlain = Only(ExecutorKind::kInProcess);
inline constexpr Executors kUnconfined =
    Only(ExecutorKind::kLocal, ExecutorKind::kSubprocess, ExecutorKind::kInProcess);

}  // namespace cella::policy
