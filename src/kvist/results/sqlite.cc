#include "kvist/results/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <utility>

namespace kvist::results {
namespace {

// The longest text or blob that is read from a file: the token gaps of a request, the sweep file, or a message.
constexpr int kMaxValueBytes = 64 << 20;
constexpr int kBusyTimeoutMs = 5'000;

ErrorCode code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
      return ErrorCode::kCorrupt;
    case SQLITE_CANTOPEN:
      return ErrorCode::kNotFound;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kUnavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return ErrorCode::kResourceExhausted;
    case SQLITE_TOOBIG:
      return ErrorCode::kTooLarge;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CONSTRAINT:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Connection::Connection(std::unique_ptr<sqlite3, Close> handle, std::string path)
    : handle_(std::move(handle)), path_(std::move(path)) {}

Result<Connection> Connection::open(const std::string& path) {
  return open_as(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Result<Connection> Connection::open_as(const std::string& name, const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &raw, flags, nullptr);
  Connection connection(std::unique_ptr<sqlite3, Close>(raw), path);
  if (code != SQLITE_OK) return std::unexpected(connection.error(code));
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  KVIST_TRY_VOID(connection.execute("PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON;"));
  return connection;
}

Error Connection::error(int code) const {
  const char* message = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  return Error{code_of(code), fmt::format("{}: {}", path_, message)};
}

Result<void> Connection::execute(const std::string& sql) const {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return std::unexpected(error(code));
  return {};
}

Result<Statement> Connection::prepare(std::string_view sql) const {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return std::unexpected(error(code));
  return Statement(*this, std::unique_ptr<sqlite3_stmt, Statement::Finalize>(raw));
}

Result<std::int64_t> Connection::query_integer(std::string_view sql) const {
  KVIST_TRY(Statement statement, prepare(sql));
  KVIST_TRY(const bool row, statement.step());
  if (!row) return fail(ErrorCode::kCorrupt, fmt::format("{}: no answer to \"{}\"", path_, sql));
  const std::int64_t value = statement.integer();
  KVIST_TRY_VOID(statement.step());
  return value;
}

std::int64_t Connection::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

std::int64_t Connection::changed_rows() const {
  return sqlite3_changes64(handle_.get());
}

void Statement::Finalize::operator()(sqlite3_stmt* handle) const {
  sqlite3_finalize(handle);
}

Statement::Statement(const Connection& connection, std::unique_ptr<sqlite3_stmt, Finalize> handle)
    : connection_(&connection), handle_(std::move(handle)) {}

void Statement::note_bind(int code) {
  ++next_parameter_;
  if (code != SQLITE_OK && !pending_) pending_ = connection_->error(code);
}

void Statement::bind(std::string_view value) {
  // A null pointer would bind NULL, not the empty text.
  const char* data = value.empty() ? "" : value.data();
  note_bind(sqlite3_bind_text64(handle_.get(), next_parameter_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind(std::span<const std::byte> value) {
  note_bind(value.empty()
                ? sqlite3_bind_zeroblob(handle_.get(), next_parameter_, 0)
                : sqlite3_bind_blob64(handle_.get(), next_parameter_, value.data(), value.size(), SQLITE_TRANSIENT));
}

void Statement::bind(double value) {
  note_bind(sqlite3_bind_double(handle_.get(), next_parameter_, value));
}

void Statement::bind_integer(std::int64_t value) {
  note_bind(sqlite3_bind_int64(handle_.get(), next_parameter_, value));
}

void Statement::bind_null() {
  note_bind(sqlite3_bind_null(handle_.get(), next_parameter_));
}

Result<void> Statement::run_bound() {
  for (;;) {
    KVIST_TRY(const bool row, step());
    if (!row) return {};
  }
}

Result<bool> Statement::step() {
  const auto reset = [this] {
    sqlite3_reset(handle_.get());
    sqlite3_clear_bindings(handle_.get());
    next_parameter_ = 1;
  };
  next_column_ = 0;
  if (pending_) {
    Error error = *std::exchange(pending_, std::nullopt);
    reset();
    return std::unexpected(std::move(error));
  }
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error error = connection_->error(code);
  reset();
  return std::unexpected(std::move(error));
}

void Statement::column_failed(std::string_view what) {
  if (pending_) return;
  const char* name = sqlite3_column_name(handle_.get(), next_column_ - 1);
  pending_ = Error{ErrorCode::kCorrupt,
                   fmt::format("{}: column {} {}", connection_->path(), name == nullptr ? "?" : name, what)};
}

bool Statement::column_is(int type, std::string_view name) {
  const bool matches = sqlite3_column_type(handle_.get(), next_column_++) == type;
  if (!matches) column_failed(fmt::format("is not {}", name));
  return matches;
}

bool Statement::skip_null() {
  if (sqlite3_column_type(handle_.get(), next_column_) != SQLITE_NULL) return false;
  ++next_column_;
  return true;
}

std::string Statement::text() {
  if (!column_is(SQLITE_TEXT, "text")) return {};
  const unsigned char* data = sqlite3_column_text(handle_.get(), next_column_ - 1);
  const int size = sqlite3_column_bytes(handle_.get(), next_column_ - 1);
  if (data == nullptr) return {};
  return std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
}

std::span<const std::byte> Statement::blob() {
  if (!column_is(SQLITE_BLOB, "a blob")) return {};
  const void* data = sqlite3_column_blob(handle_.get(), next_column_ - 1);
  const int size = sqlite3_column_bytes(handle_.get(), next_column_ - 1);
  if (data == nullptr) return {};
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

std::int64_t Statement::integer() {
  return column_is(SQLITE_INTEGER, "an integer") ? sqlite3_column_int64(handle_.get(), next_column_ - 1) : 0;
}

double Statement::real() {
  return column_is(SQLITE_FLOAT, "a number") ? sqlite3_column_double(handle_.get(), next_column_ - 1) : 0;
}

std::optional<double> Statement::optional_real() {
  if (skip_null()) return std::nullopt;
  return real();
}

Result<Transaction> Transaction::begin(const Connection& connection, Kind kind) {
  KVIST_TRY_VOID(connection.execute(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(connection);
}

Transaction::Transaction(Transaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  // If the rollback fails, SQLite has rolled back by itself.
  [[maybe_unused]] const Result<void> ignored = connection_->execute("ROLLBACK");
}

Result<void> Transaction::commit() {
  KVIST_TRY_VOID(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace kvist::results
