#include "store/statement.h"

#include "store/connection.h"

namespace cella::store {

Statement::~Statement() {
  if (statement_ == nullptr) return;
  Reset();
  auto idle = connection_->idle.find(std::string_view(sqlite3_sql(statement_)));
  // The database makes the place when it prepares the first.
  if (idle != connection_->idle.end()) {
    idle->second.push_back(statement_);
  } else {
    sqlite3_finalize(statement_);
  }
}

void Statement::Note(int code) {
  if (error_ == SQLITE_OK) error_ = code;
}

void Statement::BindInteger(int position, int64_t value) { Note(sqlite3_bind_int64(statement_, position, value)); }

void Statement::BindReal(int position, double value) { Note(sqlite3_bind_double(statement_, position, value)); }

void Statement::BindText(int position, std::string_view value) {
  // An empty view may have no data, which SQLite would take for NULL.
  const char* data = value.data() != nullptr ? value.data() : "";
  Note(sqlite3_bind_text64(statement_, position, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::BindNull(int position) { Note(sqlite3_bind_null(statement_, position)); }

Result<bool> Statement::Step() {
  if (error_ != SQLITE_OK) return Failure(*connection_, error_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Error error = ErrorOf(*connection_, code);
  // A failed statement holds its locks until it is reset.
  sqlite3_reset(statement_);
  return std::unexpected(std::move(error));
}

Status Statement::Finish() {
  for (;;) {
    TRY(bool row, Step());
    if (!row) break;
  }
  Reset();
  return {};
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  error_ = SQLITE_OK;
}

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  // The text before its size: the first call converts.
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::optional<int64_t> Statement::MaybeInteger(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Integer(column);
}

std::optional<std::string> Statement::MaybeText(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Text(column);
}

}  // namespace cella::store
