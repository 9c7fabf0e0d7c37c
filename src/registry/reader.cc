#include "registry/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "registry/rows.h"

namespace cella::registry {
namespace {

// What the row of a list is and how to read it.
struct Kind {
  char letter;  // of its cursors, so that one kind's is not taken for another's
  const char* table;
  const char* columns;
  const char* filter;  // the column that a list may be confined by
  int seq;             // the column of the order
};

constexpr Kind kSessions = {'s', "sessions", kSessionColumns, "owner", kSessionSeq};
constexpr Kind kRuns = {'r', "runs", kRunColumns, "session", kRunSeq};
constexpr Kind kAudit = {'a', "audit", "at, who, action, session, run, code_sha256, outcome, usage, seq", "who", 8};

AuditRecord AuditOf(const store::Statement& row) {
  AuditRecord record;
  record.at = Timestamp(std::chrono::milliseconds(row.Integer(0)));
  record.who = row.Text(1);
  record.action = row.Text(2);
  record.session = row.Text(3);
  record.run = row.Text(4);
  record.code_sha256 = row.Text(5);
  record.outcome = row.Text(6);
  record.usage = row.Text(7);
  return record;
}

// The place behind which the page begins.
Result<int64_t> PlaceOf(const Kind& kind, const PageQuery& query) {
  if (query.after.empty()) {
    return query.order == Order::kOldestFirst ? 0 : std::numeric_limits<int64_t>::max();
  }
  int64_t place = 0;
  const char* end = query.after.data() + query.after.size();
  const auto [parsed, error] = std::from_chars(query.after.data() + 1, end, place, 16);
  if (query.after[0] != kind.letter || error != std::errc() || parsed != end || place <= 0) {
    return Err(ErrorCode::kInvalid, "this is no cursor of this list: begin without one");
  }
  return place;
}

template <typename Record>
Result<Page<Record>> ListPage(store::Database& database, const Kind& kind, const std::optional<std::string>& filter,
                              const PageQuery& query, Record (*read)(const store::Statement&)) {
  const size_t limit = std::clamp<size_t>(query.limit, 1, kMaxPage);
  const bool forward = query.order == Order::kOldestFirst;
  TRY(const int64_t place, PlaceOf(kind, query));
  // Four texts per kind at most, all of ours.
  const std::string sql = fmt::format("SELECT {} FROM {} WHERE seq {} ?1{} ORDER BY seq {} LIMIT ?2", kind.columns,
                                      kind.table, forward ? '>' : '<',
                                      filter ? fmt::format(" AND {} = ?3", kind.filter) : "", forward ? "ASC" : "DESC");
  TRY(auto rows, database.Prepare(sql));
  filter ? rows.Bind(place, limit + 1, *filter) : rows.Bind(place, limit + 1);
  Page<Record> page;
  int64_t last = 0;
  for (;;) {
    TRY(bool row, rows.Step());
    if (!row) return page;
    if (page.items.size() == limit) break;
    page.items.push_back(read(rows));
    last = rows.Integer(kind.seq);
  }
  page.next = fmt::format("{}{:x}", kind.letter, last);
  return page;
}

}  // namespace

Result<RegistryReader> RegistryReader::Open(const std::string& path) {
  TRY(store::Database database, store::Database::Open(path, {.access = store::Access::kReadOnly}));
  return RegistryReader(std::move(database));
}

Result<std::optional<SessionRecord>> RegistryReader::FindSession(const std::string& id) {
  static const std::string kSql = fmt::format("SELECT {} FROM sessions WHERE id = ?", kSessionColumns);
  TRY(auto found, database_.Prepare(kSql));
  found.Bind(id);
  TRY(bool row, found.Step());
  if (!row) return std::nullopt;
  return SessionOf(found);
}

Result<Page<SessionRecord>> RegistryReader::ListSessions(const std::optional<std::string>& owner,
                                                         const PageQuery& query) {
  return ListPage<SessionRecord>(database_, kSessions, owner, query, SessionOf);
}

Result<std::optional<RunRecord>> RegistryReader::FindRun(const std::string& id) {
  static const std::string kSql = fmt::format("SELECT {}, result FROM runs WHERE id = ?", kRunColumns);
  TRY(auto found, database_.Prepare(kSql));
  found.Bind(id);
  TRY(bool row, found.Step());
  if (!row) return std::nullopt;
  RunRecord run = RunOf(found);
  run.result = found.Text(kRunSeq + 1);
  return run;
}

Result<std::optional<RunRecord>> RegistryReader::FindByIdempotencyKey(const std::string& session,
                                                                      const std::string& key) {
  static const std::string kSql =
      fmt::format("SELECT {}, result FROM runs WHERE session = ? AND idempotency_key = ?", kRunColumns);
  TRY(auto found, database_.Prepare(kSql));
  found.Bind(session, key);
  TRY(bool row, found.Step());
  if (!row) return std::nullopt;
  RunRecord run = RunOf(found);
  run.result = found.Text(kRunSeq + 1);
  return run;
}

Result<Page<RunRecord>> RegistryReader::ListRuns(const std::string& session, const PageQuery& query) {
  return ListPage<RunRecord>(database_, kRuns, session, query, RunOf);
}

Result<std::vector<EventRecord>> RegistryReader::ListEvents(const std::string& run, uint64_t from, size_t limit) {
  TRY(auto rows, database_.Prepare("SELECT run_events.number, event FROM run_events JOIN runs ON runs.seq = run "
                                   "WHERE runs.id = ? AND run_events.number >= ? ORDER BY run_events.number LIMIT ?"));
  constexpr uint64_t kLast = std::numeric_limits<int64_t>::max();
  rows.Bind(run, std::min(from, kLast), std::clamp<size_t>(limit, 1, kMaxPage));
  std::vector<EventRecord> events;
  for (;;) {
    TRY(bool row, rows.Step());
    if (!row) return events;
    events.push_back({static_cast<uint64_t>(rows.Integer(0)), rows.Text(1)});
  }
}

Result<Page<AuditRecord>> RegistryReader::ListAudit(const std::optional<std::string>& who, const PageQuery& query) {
  return ListPage<AuditRecord>(database_, kAudit, who, query, AuditOf);
}

}  // namespace cella::registry
