#include "registry/schema.h"

namespace cella::registry {
namespace {

constexpr int32_t kApplicationId = 0x43656c6c;  // "Cell"

// AUTOINCREMENT: a number that retention freed never comes again, so that a cursor keeps its meaning.
constexpr const char* kSteps[] = {R"sql(
CREATE TABLE sessions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  executor TEXT NOT NULL,
  policy TEXT NOT NULL,
  resources TEXT NOT NULL,
  instance TEXT NOT NULL,
  status TEXT NOT NULL,
  runs INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  closed_at INTEGER,
  closed_because TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sessions_of_owner ON sessions (owner);
CREATE INDEX sessions_open ON sessions (instance) WHERE closed_at IS NULL;
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE runs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session TEXT REFERENCES sessions (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  owner TEXT NOT NULL,
  language TEXT NOT NULL,
  code_sha256 TEXT NOT NULL,
  code_bytes INTEGER NOT NULL,
  idempotency_key TEXT,
  instance TEXT NOT NULL,
  status TEXT NOT NULL,
  exit_code INTEGER,
  state TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  usage TEXT NOT NULL DEFAULT '',
  last_event INTEGER NOT NULL DEFAULT 0,
  result TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX runs_of_session ON runs (session);
CREATE UNIQUE INDEX runs_by_key ON runs (session, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_open ON runs (instance) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE run_events (
  run INTEGER NOT NULL REFERENCES runs (seq) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  event TEXT NOT NULL,
  PRIMARY KEY (run, number)
) STRICT;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  session TEXT NOT NULL,
  run TEXT NOT NULL,
  code_sha256 TEXT NOT NULL,
  outcome TEXT NOT NULL,
  usage TEXT NOT NULL
) STRICT;
)sql",
                                  // Of their own: a guest makes many, and must not push other audit rows out.
                                  R"sql(
CREATE TABLE calls (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  session TEXT NOT NULL,
  run TEXT NOT NULL,
  name TEXT NOT NULL,
  outcome TEXT NOT NULL,
  wall_ms REAL NOT NULL
) STRICT;
)sql"};

}  // namespace

store::Schema RegistrySchema() { return {kApplicationId, kSteps}; }

}  // namespace cella::registry
