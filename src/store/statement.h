// A prepared statement: bind by position, step, read columns. Goes back to its database when it goes away, reset and
// ready for the next caller with the same text; so it must not outlive the database.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3_stmt;

namespace cella::store {

struct Connection;

class Statement {
 public:
  Statement(Statement&& other) noexcept
      : connection_(other.connection_), statement_(std::exchange(other.statement_, nullptr)), error_(other.error_) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Binds 1, 2, 3 … to integers, doubles, text, or optionals of these (none is NULL). Values are copied. A position
  // that the statement does not have is reported by the next step.
  template <typename... Values>
  void Bind(const Values&... values) {
    int position = 0;
    (BindAt(++position, values), ...);
  }

  // True: there is a row to read. False: it is done.
  Result<bool> Step();
  // Steps to the end and resets.
  Status Finish();
  // For other values: bindings are cleared as well.
  void Reset();

  // Of the row that Step found; columns count from 0. NULL reads as 0 and as empty text.
  bool IsNull(int column) const;
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  std::optional<int64_t> MaybeInteger(int column) const;
  std::optional<std::string> MaybeText(int column) const;

 private:
  friend class Database;
  Statement(Connection& connection, sqlite3_stmt* statement) : connection_(&connection), statement_(statement) {}

  void BindInteger(int position, int64_t value);
  void BindReal(int position, double value);
  void BindText(int position, std::string_view value);
  void BindNull(int position);
  void Note(int code);

  template <typename T>
  void BindAt(int position, const std::optional<T>& value) {
    value ? BindAt(position, *value) : BindNull(position);
  }
  template <std::integral T>
  void BindAt(int position, T value) {
    BindInteger(position, static_cast<int64_t>(value));
  }
  template <std::floating_point T>
  void BindAt(int position, T value) {
    BindReal(position, value);
  }
  void BindAt(int position, std::nullopt_t) { BindNull(position); }
  template <std::convertible_to<std::string_view> T>
  void BindAt(int position, const T& value) {
    BindText(position, value);
  }

  Connection* connection_;
  sqlite3_stmt* statement_;
  int error_ = 0;  // the first that binding gave
};

}  // namespace cella::store
