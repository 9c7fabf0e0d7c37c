// The registry's only writer. Lives on one thread, not the loop's; Registry hands it batches. The methods below Apply
// are what a write may call; each is a part of the transaction that Apply makes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cella/outcome.h"
#include "registry/types.h"
#include "store/database.h"

namespace cella::registry {

struct RegistryWrite;

class RegistryWriter {
 public:
  static Result<std::unique_ptr<RegistryWriter>> Open(const std::string& path, RegistryOptions options);

  // All of them in one transaction, which has been committed when this returns. One that fails leaves no trace and
  // harms no other, except when the file cannot be written: then all of them have failed.
  void Apply(std::vector<RegistryWrite>& writes);

  // At a full disk: what retention permits to delete goes now, and the log is moved into the file.
  void MakeRoom(Timestamp now);

  int wal_pages() const { return database_.wal_pages(); }
  Status Checkpoint() { return database_.Checkpoint(); }

  Status AddSession(const NewSession& session, Timestamp at);
  Status EndSession(const std::string& id, SessionStatus status, const std::string& because, Timestamp at);
  Result<Accepted> AddRun(const NewRun& run, Timestamp at);
  Status StartRun(const std::string& id, Timestamp at);
  Status EndRun(EndedRun& run, Timestamp at);
  // `last`: the number of the newest, which may be too large to be among them.
  Status AppendEvents(const std::string& run, uint64_t last, const std::vector<EventRecord>& events);
  Status AddAudit(const AuditEntry& entry, Timestamp at);
  Status AddCall(const CallEntry& entry, Timestamp at);
  Result<Lost> MarkLost(Timestamp at);

  // A small step of retention; true when there is more to do.
  Result<bool> SweepStep(Timestamp now, Swept& swept);

 private:
  RegistryWriter(store::Database database, RegistryOptions options)
      : database_(std::move(database)), options_(std::move(options)) {}

  Status ApplyAll(std::vector<RegistryWrite>& writes);
  Result<std::optional<Accepted>> Earlier(const NewRun& run);
  Status TrimTail(int64_t run);
  Result<uint64_t> DeleteRuns(Timestamp now);
  Result<uint64_t> DeleteSessions(Timestamp now);
  Result<uint64_t> DeleteAudit(Timestamp now, const char* table);
  Result<int64_t> UsedBytes();
  Result<bool> IsTooLarge();

  store::Database database_;
  RegistryOptions options_;
};

// After the class: the library of GCC 12 wants to see it whole.
struct RegistryWrite {
  std::move_only_function<Status(RegistryWriter&)> apply;
  Status outcome;
};

}  // namespace cella::registry
