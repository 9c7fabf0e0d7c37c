// Records as rows: what the writer and the reader of the registry share.
#pragma once

#include <string>

#include "registry/types.h"
#include "store/statement.h"

namespace cella::registry {

inline constexpr const char* kSessionColumns =
    "id, owner, name, labels, executor, policy, resources, instance, status, runs, created_at, closed_at, "
    "closed_because, seq";
// Without the Result, which may be large.
inline constexpr const char* kRunColumns =
    "id, session, owner, language, code_sha256, code_bytes, idempotency_key, number, instance, status, exit_code, "
    "state, created_at, started_at, ended_at, usage, last_event, seq";
inline constexpr int kSessionSeq = 13;
inline constexpr int kRunSeq = 17;

SessionRecord SessionOf(const store::Statement& row);
RunRecord RunOf(const store::Statement& row);

inline int64_t Stored(Timestamp at) { return at.time_since_epoch().count(); }

}  // namespace cella::registry
