#include "store/schema.h"

#include "store/transaction.h"

namespace cella::store {
namespace {

Result<int64_t> Version(Database& database, const Schema& schema) {
  TRY(const int64_t version, database.Number("PRAGMA user_version"));
  TRY(const int64_t application, database.Number("PRAGMA application_id"));
  TRY(const int64_t tables, database.Number("SELECT count(*) FROM sqlite_schema"));
  const bool fresh = application == 0 && version == 0 && tables == 0;
  if (!fresh && application != schema.application_id) {
    return Err(ErrorCode::kInvalid, "'{}' is a database of another program: use another directory, or move it away",
               database.path());
  }
  if (version < 0 || version > static_cast<int64_t>(schema.steps.size())) {
    return Err(ErrorCode::kUnsupported,
               "'{}' was written by a newer version (format {}, this one knows up to {}): use that version, or another "
               "directory",
               database.path(), version, schema.steps.size());
  }
  return version;
}

}  // namespace

Status Migrate(Database& database, const Schema& schema) {
  TRY(int64_t version, Version(database, schema));
  while (version < static_cast<int64_t>(schema.steps.size())) {
    TRY(auto transaction, Transaction::Begin(database));
    // Another process may have been faster.
    TRY(version, Version(database, schema));
    if (version == static_cast<int64_t>(schema.steps.size())) break;
    auto taken = database.Execute(schema.steps[static_cast<size_t>(version)]);
    if (!taken) {
      return std::unexpected(
          std::move(taken.error()).WithContext(fmt::format("bring '{}' to format {}", database.path(), version + 1)));
    }
    TRY_VOID(database.Execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", schema.application_id, version + 1)));
    TRY_VOID(transaction.Commit());
    ++version;
  }
  return {};
}

}  // namespace cella::store
