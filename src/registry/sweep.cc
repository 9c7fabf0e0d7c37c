// Retention: what is old, or too much, goes in steps so small that writes between them do not notice.
#include "registry/writer.h"

#include <fmt/format.h>

#include "registry/rows.h"

namespace cella::registry {
namespace {

constexpr int64_t kRunsAtOnce = 32;  // each may bring a Result of a megabyte along
constexpr int64_t kRowsAtOnce = 256;
constexpr int kStepsForRoom = 64;        // the writes behind them wait
constexpr int64_t kFreePagesKept = 256;  // for what comes next
// As text: a pragma takes no parameters.
constexpr const char* kVacuumStep = "PRAGMA incremental_vacuum(256)";

}  // namespace

Result<uint64_t> RegistryWriter::DeleteRuns(Timestamp now) {
  const Retention& retention = options_.retention;
  TRY_VOID(
      database_.Run("DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
                    Stored(now - retention.age), kRunsAtOnce));
  if (database_.changes() > 0) return static_cast<uint64_t>(database_.changes());

  TRY(const int64_t runs, database_.Number("SELECT count(*) FROM runs"));
  TRY(const bool too_large, IsTooLarge());
  int64_t excess = runs - static_cast<int64_t>(retention.max_runs);
  if (too_large) excess = kRunsAtOnce;
  if (excess <= 0) return 0;
  TRY_VOID(database_.Run(
      "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE ended_at IS NOT NULL ORDER BY seq LIMIT ?)",
      std::min(excess, kRunsAtOnce)));
  return static_cast<uint64_t>(database_.changes());
}

Result<int64_t> RegistryWriter::UsedBytes() {
  TRY(const int64_t page_bytes, database_.Number("PRAGMA page_size"));
  TRY(const int64_t pages, database_.Number("PRAGMA page_count"));
  TRY(const int64_t free_pages, database_.Number("PRAGMA freelist_count"));
  return (pages - free_pages) * page_bytes;
}

Result<bool> RegistryWriter::IsTooLarge() {
  TRY(const int64_t used, UsedBytes());
  return used > static_cast<int64_t>(options_.retention.max_bytes);
}

// The old ones, and the oldest of too many.
Result<uint64_t> RegistryWriter::DeleteSessions(Timestamp now) {
  constexpr const char* kDelete =
      "DELETE FROM sessions WHERE seq IN (SELECT seq FROM sessions WHERE closed_at < ? "
      "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.id) ORDER BY closed_at LIMIT ?)";
  TRY_VOID(database_.Run(kDelete, Stored(now - options_.retention.age), kRowsAtOnce));
  if (database_.changes() > 0) return static_cast<uint64_t>(database_.changes());
  TRY(const int64_t closed, database_.Number("SELECT count(*) FROM sessions WHERE closed_at IS NOT NULL"));
  int64_t excess = closed - static_cast<int64_t>(options_.retention.max_sessions);
  TRY(const bool too_large, IsTooLarge());
  if (too_large) excess = kRowsAtOnce;
  if (excess <= 0) return 0;
  TRY_VOID(database_.Run(kDelete, Stored(now) + 1, std::min(excess, kRowsAtOnce)));
  return static_cast<uint64_t>(database_.changes());
}

Result<uint64_t> RegistryWriter::DeleteAudit(Timestamp now, const char* table) {
  const Retention& retention = options_.retention;
  const std::string sql = fmt::format(
      "DELETE FROM {0} WHERE seq IN (SELECT seq FROM {0} ORDER BY seq LIMIT ?) "
      "AND (at < ? OR seq <= (SELECT max(seq) FROM {0}) - ?)",
      table);
  TRY_VOID(database_.Run(sql, kRowsAtOnce, Stored(now - retention.audit_age), retention.max_audit));
  return static_cast<uint64_t>(database_.changes());
}

Result<bool> RegistryWriter::SweepStep(Timestamp now, Swept& swept) {
  TRY(const uint64_t runs, DeleteRuns(now));
  swept.runs += runs;
  if (runs > 0) return true;

  // Only those whose runs are gone, else a step would be as large as the session was busy.
  TRY(const uint64_t sessions, DeleteSessions(now));
  swept.sessions += sessions;
  if (sessions > 0) return true;

  for (const char* table : {"audit", "calls"}) {
    TRY(const uint64_t audit, DeleteAudit(now, table));
    swept.audit += audit;
    if (audit > 0) return true;
  }

  TRY(const int64_t free_pages, database_.Number("PRAGMA freelist_count"));
  if (free_pages <= kFreePagesKept) return false;
  TRY_VOID(database_.Run(kVacuumStep));
  return true;
}

void RegistryWriter::MakeRoom(Timestamp now) {
  // Best effort: on a full disk each of these may fail, and the write that follows reports it.
  (void)Checkpoint();
  Swept swept;
  for (int step = 0; step < kStepsForRoom; ++step) {
    auto more = SweepStep(now, swept);
    if (!more || !*more) break;
  }
  (void)Checkpoint();
}

}  // namespace cella::registry
