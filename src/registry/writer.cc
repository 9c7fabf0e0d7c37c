#include "registry/writer.h"

#include <fmt/format.h>

#include "registry/rows.h"
#include "registry/schema.h"
#include "registry/stored_result.h"
#include "store/transaction.h"

namespace cella::registry {

Result<std::unique_ptr<RegistryWriter>> RegistryWriter::Open(const std::string& path, RegistryOptions options) {
  TRY(store::Database database, store::Database::Open(path));
  TRY_VOID(store::Migrate(database, RegistrySchema()));
  return std::unique_ptr<RegistryWriter>(new RegistryWriter(std::move(database), std::move(options)));
}

void RegistryWriter::Apply(std::vector<RegistryWrite>& writes) {
  Status status = ApplyAll(writes);
  if (status) return;
  for (RegistryWrite& write : writes) write.outcome = std::unexpected(status.error());
}

Status RegistryWriter::ApplyAll(std::vector<RegistryWrite>& writes) {
  TRY(auto transaction, store::Transaction::Begin(database_));
  if (writes.size() == 1) {
    // There is no other to be protected from it.
    writes[0].outcome = writes[0].apply(*this);
    return writes[0].outcome ? transaction.Commit() : Status{};
  }
  for (RegistryWrite& write : writes) {
    TRY(auto part, store::Savepoint::Begin(database_));
    write.outcome = write.apply(*this);
    if (write.outcome) {
      TRY_VOID(part.Keep());
    } else if (!database_.in_transaction()) {
      // Out of space, say: SQLite gave up all of it, with what the others had written.
      return std::unexpected(write.outcome.error());
    }
  }
  return transaction.Commit();
}

Status RegistryWriter::AddSession(const NewSession& session, Timestamp at) {
  return database_.Run(
      "INSERT INTO sessions (id, owner, name, labels, executor, policy, resources, instance, status, created_at) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      session.id, session.owner, session.name, session.labels, session.executor, session.policy, session.resources,
      options_.instance, ToString(SessionStatus::kOpen), Stored(at));
}

Status RegistryWriter::EndSession(const std::string& id, SessionStatus status, const std::string& because,
                                  Timestamp at) {
  TRY_VOID(database_.Run(
      "UPDATE sessions SET status = ?, closed_because = ?, closed_at = ? WHERE id = ? AND closed_at IS NULL",
      ToString(status), because, Stored(at), id));
  if (database_.changes() == 0) return Err(ErrorCode::kNotFound, "no open session '{}'", id);
  return {};
}

Result<std::optional<Accepted>> RegistryWriter::Earlier(const NewRun& run) {
  TRY(auto found, database_.Prepare("SELECT id, number, language = ? AND code_sha256 = ? AND code_bytes = ? FROM runs "
                                    "WHERE session = ? AND idempotency_key = ?"));
  found.Bind(run.language, run.code_sha256, run.code_bytes, run.session, run.idempotency_key);
  TRY(bool row, found.Step());
  if (!row) return std::nullopt;
  const auto as = found.Integer(2) != 0 ? Accepted::As::kRepeated : Accepted::As::kConflict;
  return Accepted{as, found.Text(0), static_cast<uint64_t>(found.Integer(1))};
}

Result<Accepted> RegistryWriter::AddRun(const NewRun& run, Timestamp at) {
  const bool in_session = !run.session.empty();
  if (run.idempotency_key) {
    if (!in_session) return Err(ErrorCode::kInvalid, "an idempotency key belongs to a session; this run has none");
    TRY(auto earlier, Earlier(run));
    if (earlier) return *earlier;
  }
  if (run.chosen_id) {
    TRY(const int64_t taken, database_.Number("SELECT count(*) FROM runs WHERE id = ?", run.id));
    if (taken > 0) return Accepted{Accepted::As::kTaken, run.id, 0};
  }
  int64_t number = 0;
  if (in_session) {
    TRY(number,
        database_.Number("UPDATE sessions SET runs = runs + 1 WHERE id = ? AND closed_at IS NULL RETURNING runs",
                         run.session));
    if (number == 0) return Err(ErrorCode::kNotFound, "no open session '{}'", run.session);
  }
  TRY_VOID(database_.Run(
      "INSERT INTO runs (id, session, number, owner, language, code_sha256, code_bytes, idempotency_key, instance, "
      "status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?)",
      run.id, in_session ? std::optional<std::string>(run.session) : std::nullopt, number, run.owner, run.language,
      run.code_sha256, run.code_bytes, run.idempotency_key, options_.instance, Stored(at)));
  return Accepted{Accepted::As::kNew, run.id, static_cast<uint64_t>(number)};
}

Status RegistryWriter::StartRun(const std::string& id, Timestamp at) {
  TRY_VOID(database_.Run("UPDATE runs SET status = 'running', started_at = ? WHERE id = ? AND ended_at IS NULL",
                         Stored(at), id));
  if (database_.changes() == 0) return Err(ErrorCode::kNotFound, "no run '{}' that waits", id);
  return {};
}

Status RegistryWriter::EndRun(EndedRun& run, Timestamp at) {
  if (run.result) {
    run.text = StoredResult(std::move(*run.result), options_.result_bytes);
    run.result.reset();
  }
  TRY_VOID(
      database_.Run("UPDATE runs SET status = ?, exit_code = ?, state = ?, ended_at = ?, usage = ?, result = ? "
                    "WHERE id = ?",
                    ToString(run.outcome.status), run.outcome.exit_code, ToString(run.state), Stored(at),
                    StoredUsage(run.outcome.usage), run.text, run.id));
  if (database_.changes() == 0) return Err(ErrorCode::kNotFound, "no run '{}'", run.id);
  return {};
}

Status RegistryWriter::AppendEvents(const std::string& run, uint64_t last, const std::vector<EventRecord>& events) {
  TRY(const int64_t seq,
      database_.Number("UPDATE runs SET last_event = max(last_event, ?) WHERE id = ? RETURNING seq", last, run));
  if (seq == 0) return Err(ErrorCode::kNotFound, "no run '{}'", run);
  for (const EventRecord& event : events) {
    TRY_VOID(database_.Run("INSERT OR REPLACE INTO run_events (run, number, event) VALUES (?, ?, ?)", seq, event.number,
                           event.event));
  }
  return TrimTail(seq);
}

Status RegistryWriter::TrimTail(int64_t run) {
  TRY(auto rows, database_.Prepare("SELECT number, length(CAST(event AS BLOB)) FROM run_events WHERE run = ? "
                                   "ORDER BY number DESC"));
  rows.Bind(run);
  size_t count = 0;
  size_t bytes = 0;
  for (;;) {
    TRY(bool row, rows.Step());
    if (!row) return {};
    bytes += static_cast<size_t>(rows.Integer(1));
    if (++count > options_.tail_events || bytes > options_.tail_bytes) break;
  }
  const int64_t newest_to_go = rows.Integer(0);
  rows.Reset();
  return database_.Run("DELETE FROM run_events WHERE run = ? AND number <= ?", run, newest_to_go);
}

Status RegistryWriter::AddAudit(const AuditEntry& entry, Timestamp at) {
  return database_.Run(
      "INSERT INTO audit (at, who, action, session, run, code_sha256, outcome, usage) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      Stored(at), entry.who, entry.action, entry.session, entry.run, entry.code_sha256, entry.outcome, entry.usage);
}

Status RegistryWriter::AddCall(const CallEntry& entry, Timestamp at) {
  return database_.Run("INSERT INTO calls (at, who, session, run, name, outcome, wall_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
                       Stored(at), entry.who, entry.session, entry.run, entry.name, entry.outcome, entry.wall_ms);
}

Result<Lost> RegistryWriter::MarkLost(Timestamp at) {
  Lost lost;
  {
    static const std::string kSql = fmt::format(
        "UPDATE runs SET status = 'lost', state = 'lost', ended_at = ? WHERE ended_at IS NULL AND instance <> ? "
        "RETURNING {}",
        kRunColumns);
    TRY(auto rows, database_.Prepare(kSql));
    rows.Bind(Stored(at), options_.instance);
    for (;;) {
      TRY(bool row, rows.Step());
      if (!row) break;
      lost.runs.push_back(RunOf(rows));
    }
  }
  static const std::string kSql = fmt::format(
      "UPDATE sessions SET status = 'lost', closed_at = ?, closed_because = 'its server ended without closing it' "
      "WHERE closed_at IS NULL AND instance <> ? RETURNING {}",
      kSessionColumns);
  TRY(auto rows, database_.Prepare(kSql));
  rows.Bind(Stored(at), options_.instance);
  for (;;) {
    TRY(bool row, rows.Step());
    if (!row) break;
    lost.sessions.push_back(SessionOf(rows));
  }
  return lost;
}

}  // namespace cella::registry
