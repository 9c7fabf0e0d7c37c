#include "store/transaction.h"

namespace cella::store {

Result<Transaction> Transaction::Begin(Database& database) {
  TRY_VOID(database.Run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  // After some failures SQLite has rolled back already.
  if (database_ != nullptr && database_->in_transaction()) (void)database_->Run("ROLLBACK");
}

Status Transaction::Commit() {
  TRY_VOID(database_->Run("COMMIT"));
  database_ = nullptr;
  return {};
}

Result<Savepoint> Savepoint::Begin(Database& database) {
  TRY_VOID(database.Run("SAVEPOINT part"));
  return Savepoint(database);
}

Savepoint::~Savepoint() {
  if (database_ == nullptr || !database_->in_transaction()) return;
  (void)database_->Run("ROLLBACK TO part");
  (void)database_->Run("RELEASE part");
}

Status Savepoint::Keep() {
  TRY_VOID(database_->Run("RELEASE part"));
  database_ = nullptr;
  return {};
}

}  // namespace cella::store
