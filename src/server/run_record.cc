#include "server/run_record.h"

#include "base/sha256.h"
#include "session/stored_result.h"

namespace cella::server {

std::string CodeHash(const std::vector<language::Block>& blocks) {
  std::string whole;
  for (const language::Block& block : blocks) {
    whole.append(block.language).append(1, '\0').append(block.code).append(1, '\0');
  }
  return Sha256Hex(whole);
}

async::Task<void> RecordRun(Hub& hub, std::string_view action, std::string_view who, const RunResult& result,
                            std::string code_sha256) {
  const Outcome& outcome = result.outcome;
  hub.log.Write(LogLevel::kInfo, "run.ended", "run ended",
                {{"run", result.id},
                 {"session", result.session},
                 {"client", who},
                 {"action", action},
                 {"status", ToString(outcome.status)},
                 {"exit_code", int64_t{outcome.exit_code}},
                 {"wall_ms", outcome.usage.wall_ms},
                 {"code_sha256", code_sha256}});
  session::AuditEntry entry;
  entry.who = who;
  entry.action = action;
  entry.session = result.session;
  entry.run = result.id;
  entry.code_sha256 = std::move(code_sha256);
  entry.outcome = ToString(outcome.status);
  entry.usage = session::StoredUsage(outcome.usage);
  (void)co_await hub.registry.Audit(std::move(entry), session::Until::kQueued);
}

}  // namespace cella::server
