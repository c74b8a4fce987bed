// SQLite as values and Results: a connection, its prepared statements and transactions.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kvist::results {

class Statement;

/// One open database file. Requires: its statements are destroyed before it. Threads: one.
class Connection {
 public:
  /// Opens or creates a file. The file's own schema is not trusted: it may not call functions or write to SQLite's own
  /// tables.
  [[nodiscard]] static Result<Connection> open(const std::string& path);
  /// Opens a file that exists, to read it: it is not changed, and nothing is created beside it. If a writer was cut off
  /// within a transaction, the file is read from a copy in which that was undone.
  [[nodiscard]] static Result<Connection> open_to_read(const std::string& path);
  /// Opens a copy of all of it, in a temporary file that is gone with the connection. Errors name the original.
  [[nodiscard]] Result<Connection> open_copy() const;

  /// Runs statements that give no rows, or whose rows do not matter.
  [[nodiscard]] Result<void> execute(const std::string& sql) const;
  [[nodiscard]] Result<Statement> prepare(std::string_view sql) const;
  /// The first column of the only row of a query.
  [[nodiscard]] Result<std::int64_t> query_integer(std::string_view sql) const;

  [[nodiscard]] std::int64_t last_row_id() const;
  /// Rows changed by the last INSERT, UPDATE or DELETE.
  [[nodiscard]] std::int64_t changed_rows() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// SQLite's last error, with the path prepended.
  [[nodiscard]] Error error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Connection(std::unique_ptr<sqlite3, Close> handle, std::string path);
  /// `name` is what SQLite opens, `path` what errors name.
  [[nodiscard]] static Result<Connection> open_as(const std::string& name, const std::string& path, int flags);
  [[nodiscard]] static Result<Connection> open_recovered(const std::string& path);

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

/// A prepared statement of one connection, which must outlive it. Errors of binding and of columns are kept and
/// returned by the next step() or by finish(), so that the code in between needs no checks.
class Statement {
 public:
  /// Binds the parameters of the statement in order and steps it to its end, ready for the next call.
  template <class... Values>
  [[nodiscard]] Result<void> run(const Values&... values) {
    bind_all(values...);
    return run_bound();
  }
  /// Binds the parameters in order; rows follow with step().
  template <class... Values>
  void bind_all(const Values&... values) {
    next_parameter_ = 1;
    (bind(values), ...);
  }

  /// Returns whether there is a row to read. Errors include a column of the previous row that was not as expected.
  [[nodiscard]] Result<bool> step();

  /// The next column of the present row. A column of another type or out of range gives an empty value and makes the
  /// next step() fail.
  [[nodiscard]] std::string text();
  [[nodiscard]] std::span<const std::byte> blob();  ///< valid until the next step()
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] double real();
  [[nodiscard]] std::optional<double> optional_real();
  /// Null is nothing; an integer that T cannot hold is an error.
  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> optional_integer() {
    if (skip_null()) return std::nullopt;
    return integer_as<T>();
  }
  template <std::unsigned_integral T>
  [[nodiscard]] T integer_as() {
    const std::int64_t value = integer();
    if constexpr (sizeof(T) == sizeof(std::int64_t)) {
      return static_cast<T>(value);  // all 64 bits are kept: large values are stored as negative integers
    } else {
      if (value < 0 || value > static_cast<std::int64_t>(std::numeric_limits<T>::max())) {
        column_failed("is out of range");
        return 0;
      }
      return static_cast<T>(value);
    }
  }
  /// Records that the value just read is invalid; the next step() fails with it.
  void column_failed(std::string_view what);

 private:
  friend class Connection;
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  Statement(const Connection& connection, std::unique_ptr<sqlite3_stmt, Finalize> handle);

  void bind(std::string_view value);
  void bind(const std::string& value) { bind(std::string_view(value)); }
  void bind(std::span<const std::byte> value);
  void bind(double value);
  void bind_integer(std::int64_t value);
  void bind_null();
  template <std::integral T>
  void bind(T value) {
    bind_integer(static_cast<std::int64_t>(value));
  }
  template <class T>
  void bind(const std::optional<T>& value) {
    if (value) {
      bind(*value);
    } else {
      bind_null();
    }
  }
  void note_bind(int code);
  bool skip_null();
  bool column_is(int type, std::string_view name);
  [[nodiscard]] Result<void> run_bound();

  const Connection* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int next_parameter_ = 1;
  int next_column_ = 0;
  std::optional<Error> pending_;
};

/// A transaction between begin() and commit(). The destructor rolls back what was not committed.
class Transaction {
 public:
  enum class Kind { kRead, kWrite };
  [[nodiscard]] static Result<Transaction> begin(const Connection& connection, Kind kind);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  [[nodiscard]] Result<void> commit();

 private:
  explicit Transaction(const Connection& connection) : connection_(&connection) {}
  const Connection* connection_;  // null once committed or moved from
};

}  // namespace kvist::results
