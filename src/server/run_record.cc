#include "server/run_record.h"

#include "base/sha256.h"
#include "registry/registry.h"
#include "registry/stored_result.h"
#include "server/log.h"

namespace cella::server {

std::string CodeHash(const std::vector<Block>& blocks) {
  std::string whole;
  for (const Block& block : blocks) {
    whole.append(block.language).append(1, '\0').append(block.code).append(1, '\0');
  }
  return Sha256Hex(whole);
}

async::Task<std::string> HashCode(async::BlockingPool& pool, const std::vector<Block>& blocks) {
  constexpr size_t kHashAtOnce = size_t{64} << 10;
  size_t bytes = 0;
  for (const Block& block : blocks) bytes += block.code.size();
  if (bytes <= kHashAtOnce) co_return CodeHash(blocks);
  auto hash = [&blocks]() -> Result<std::string> { return CodeHash(blocks); };
  auto hashed = co_await pool.Run(hash);
  co_return hashed ? std::move(*hashed) : CodeHash(blocks);
}

async::Task<void> RecordCall(Hub& hub, std::string who, std::string session, std::string run,
                             run::HostCallRecord record) {
  registry::CallEntry entry;
  entry.who = std::move(who);
  entry.session = std::move(session);
  entry.run = std::move(run);
  entry.name = record.space + "." + record.operation;
  entry.outcome = std::move(record.outcome);
  entry.wall_ms = std::chrono::duration<double, std::milli>(record.duration).count();
  (void)co_await hub.registry.AuditCall(std::move(entry), registry::Until::kQueued);
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
  registry::AuditEntry entry;
  entry.who = who;
  entry.action = action;
  entry.session = result.session;
  entry.run = result.id;
  entry.code_sha256 = std::move(code_sha256);
  entry.outcome = ToString(outcome.status);
  entry.usage = registry::StoredUsage(outcome.usage);
  (void)co_await hub.registry.Audit(std::move(entry), registry::Until::kQueued);
}

}  // namespace cella::server
