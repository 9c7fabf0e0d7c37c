// Retention: what is old, or too much, goes in steps so small that writes between them do not notice.
#include "session/registry_writer.h"

#include "session/registry_rows.h"

namespace cella::session {
namespace {

constexpr int64_t kRunsAtOnce = 32;  // each may bring a Result of a megabyte along
constexpr int64_t kRowsAtOnce = 256;
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
  TRY(const int64_t page_bytes, database_.Number("PRAGMA page_size"));
  TRY(const int64_t pages, database_.Number("PRAGMA page_count"));
  TRY(const int64_t free_pages, database_.Number("PRAGMA freelist_count"));
  int64_t excess = runs - static_cast<int64_t>(retention.max_runs);
  if ((pages - free_pages) * page_bytes > static_cast<int64_t>(retention.max_bytes)) excess = kRunsAtOnce;
  if (excess <= 0) return 0;
  TRY_VOID(database_.Run(
      "DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE ended_at IS NOT NULL ORDER BY seq LIMIT ?)",
      std::min(excess, kRunsAtOnce)));
  return static_cast<uint64_t>(database_.changes());
}

Result<uint64_t> RegistryWriter::DeleteAudit(Timestamp now) {
  const Retention& retention = options_.retention;
  TRY_VOID(
      database_.Run("DELETE FROM audit WHERE seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?) "
                    "AND (at < ? OR seq <= (SELECT max(seq) FROM audit) - ?)",
                    kRowsAtOnce, Stored(now - retention.audit_age), retention.max_audit));
  return static_cast<uint64_t>(database_.changes());
}

Result<bool> RegistryWriter::SweepStep(Timestamp now, Swept& swept) {
  TRY(const uint64_t runs, DeleteRuns(now));
  swept.runs += runs;
  if (runs > 0) return true;

  // Only those whose runs are gone, else a step would be as large as the session was busy.
  TRY_VOID(
      database_.Run("DELETE FROM sessions WHERE seq IN (SELECT seq FROM sessions WHERE closed_at < ? "
                    "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.id) LIMIT ?)",
                    Stored(now - options_.retention.age), kRowsAtOnce));
  const auto sessions = static_cast<uint64_t>(database_.changes());
  swept.sessions += sessions;
  if (sessions > 0) return true;

  TRY(const uint64_t audit, DeleteAudit(now));
  swept.audit += audit;
  if (audit > 0) return true;

  TRY(const int64_t free_pages, database_.Number("PRAGMA freelist_count"));
  if (free_pages <= kFreePagesKept) return false;
  TRY_VOID(database_.Run(kVacuumStep));
  return true;
}

}  // namespace cella::session
