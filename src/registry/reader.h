// The registry's queries, over a connection that cannot write. Lives on one thread, not the loop's.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "registry/types.h"
#include "store/database.h"

namespace cella::registry {

class RegistryReader {
 public:
  // The writer has made the file.
  static Result<RegistryReader> Open(const std::string& path);

  Result<std::optional<SessionRecord>> FindSession(const std::string& id);
  // Without an owner: those of all clients.
  Result<Page<SessionRecord>> ListSessions(const std::optional<std::string>& owner, const PageQuery& query);
  Result<std::optional<RunRecord>> FindRun(const std::string& id);
  Result<std::optional<RunRecord>> FindByIdempotencyKey(const std::string& session, const std::string& key);
  Result<Page<RunRecord>> ListRuns(const std::string& session, const PageQuery& query);
  Result<std::vector<EventRecord>> ListEvents(const std::string& run, uint64_t from, size_t limit);
  Result<Page<AuditRecord>> ListAudit(const std::optional<std::string>& who, const PageQuery& query);

 private:
  explicit RegistryReader(store::Database database) : database_(std::move(database)) {}

  store::Database database_;
};

}  // namespace cella::registry
