#include "registry/rows.h"

namespace cella::registry {
namespace {

Timestamp TimeOf(int64_t stored) { return Timestamp(std::chrono::milliseconds(stored)); }

std::optional<Timestamp> MaybeTime(const store::Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return TimeOf(row.Integer(column));
}

SessionStatus StatusOf(std::string_view word) {
  if (word == ToString(SessionStatus::kOpen)) return SessionStatus::kOpen;
  return word == ToString(SessionStatus::kClosed) ? SessionStatus::kClosed : SessionStatus::kLost;
}

}  // namespace

std::string_view ToString(SessionStatus status) {
  switch (status) {
    case SessionStatus::kOpen: return "open";
    case SessionStatus::kClosed: return "closed";
    case SessionStatus::kLost: break;
  }
  return "lost";
}

SessionRecord SessionOf(const store::Statement& row) {
  SessionRecord session;
  session.id = row.Text(0);
  session.owner = row.Text(1);
  session.name = row.Text(2);
  session.labels = row.Text(3);
  session.executor = row.Text(4);
  session.policy = row.Text(5);
  session.resources = row.Text(6);
  session.instance = row.Text(7);
  session.status = StatusOf(row.Text(8));
  session.runs = static_cast<uint64_t>(row.Integer(9));
  session.created_at = TimeOf(row.Integer(10));
  session.closed_at = MaybeTime(row, 11);
  session.closed_because = row.Text(12);
  return session;
}

RunRecord RunOf(const store::Statement& row) {
  RunRecord run;
  run.id = row.Text(0);
  run.session = row.Text(1);
  run.owner = row.Text(2);
  run.language = row.Text(3);
  run.code_sha256 = row.Text(4);
  run.code_bytes = static_cast<uint64_t>(row.Integer(5));
  run.idempotency_key = row.MaybeText(6);
  run.number = static_cast<uint64_t>(row.Integer(7));
  run.instance = row.Text(8);
  run.status = row.Text(9);
  if (!row.IsNull(10)) run.exit_code = static_cast<int>(row.Integer(10));
  run.state = row.Text(11);
  run.created_at = TimeOf(row.Integer(12));
  run.started_at = MaybeTime(row, 13);
  run.ended_at = MaybeTime(row, 14);
  run.usage = row.Text(15);
  run.last_event = static_cast<uint64_t>(row.Integer(16));
  return run;
}

}  // namespace cella::registry
