// A transaction that is rolled back unless it was committed, and a part of one that can be undone alone. Neither
// outlives its database; a Savepoint ends before its Transaction.
#pragma once

#include <utility>

#include "base/result.h"
#include "store/database.h"

namespace cella::store {

class Transaction {
 public:
  // Takes the right to write at once, so that nothing inside waits for it or fails for want of it.
  static Result<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Status Commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}

  Database* database_;
};

class Savepoint {
 public:
  static Result<Savepoint> Begin(Database& database);
  Savepoint(Savepoint&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Savepoint& operator=(Savepoint&&) = delete;
  ~Savepoint();

  Status Keep();

 private:
  explicit Savepoint(Database& database) : database_(&database) {}

  Database* database_;
};

}  // namespace cella::store
