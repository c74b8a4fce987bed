#include "kvist/results/store.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/results/level_rows.h"
#include "kvist/results/schema.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

class Store::Impl {
 public:
  explicit Impl(Connection c) : connection(std::move(c)) {}

  Connection connection;

  [[nodiscard]] Result<void> require_run(std::int64_t run) const {
    KVIST_TRY(Statement find, connection.prepare("SELECT id FROM runs WHERE id = ?1"));
    find.bind_all(run);
    KVIST_TRY(const bool there, find.step());
    if (!there) return fail(ErrorCode::kNotFound, fmt::format("{}: no run {}", connection.path(), run));
    return {};
  }

  [[nodiscard]] Result<RunRecord> load_head(std::int64_t run) const {
    KVIST_TRY(Statement statement,
              connection.prepare("SELECT name, started_utc, finished_utc, kvist_version, simulated, spec_yaml "
                                 "FROM runs WHERE id = ?1"));
    statement.bind_all(run);
    KVIST_TRY(const bool there, statement.step());
    if (!there) return fail(ErrorCode::kNotFound, fmt::format("{}: no run {}", connection.path(), run));
    RunRecord record;
    record.name = statement.text();
    record.started_utc = statement.text();
    record.finished_utc = statement.text();
    record.kvist_version = statement.text();
    record.simulated = statement.integer() != 0;
    record.spec_yaml = statement.text();
    KVIST_TRY_VOID(statement.step());
    return record;
  }

  [[nodiscard]] Result<std::map<std::string, std::string>> load_machine(std::int64_t run) const {
    KVIST_TRY(Statement statement, connection.prepare("SELECT key, value FROM machine WHERE run = ?1 ORDER BY key"));
    statement.bind_all(run);
    std::map<std::string, std::string> machine;
    for (;;) {
      KVIST_TRY(const bool row, statement.step());
      if (!row) return machine;
      std::string key = statement.text();
      machine[std::move(key)] = statement.text();
    }
  }
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  KVIST_TRY(Connection connection, Connection::open(path));
  KVIST_TRY_VOID(prepare_schema(connection));
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(std::move(connection))));
}

Result<std::int64_t> Store::begin_run(const RunRecord& run) {
  const Connection& connection = impl_->connection;
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY(
      Statement insert,
      connection.prepare("INSERT INTO runs (name, started_utc, finished_utc, kvist_version, simulated, spec_yaml) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
  KVIST_TRY_VOID(
      insert.run(run.name, run.started_utc, run.finished_utc, run.kvist_version, run.simulated, run.spec_yaml));
  const std::int64_t id = connection.last_row_id();
  KVIST_TRY(Statement machine, connection.prepare("INSERT INTO machine (run, key, value) VALUES (?1, ?2, ?3)"));
  for (const auto& [key, value] : run.machine) KVIST_TRY_VOID(machine.run(id, key, value));
  KVIST_TRY_VOID(transaction.commit());
  return id;
}

Result<void> Store::add_level(std::int64_t run, const LevelRecord& level) {
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(impl_->require_run(run));
  KVIST_TRY_VOID(insert_level(impl_->connection, run, level));
  return transaction.commit();
}

Result<void> Store::finish_run(std::int64_t run, const std::string& finished_utc) {
  KVIST_TRY(Statement update, impl_->connection.prepare("UPDATE runs SET finished_utc = ?1 WHERE id = ?2"));
  KVIST_TRY_VOID(update.run(finished_utc, run));
  if (impl_->connection.changed_rows() == 0) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no run {}", impl_->connection.path(), run));
  }
  return {};
}

Result<std::vector<std::int64_t>> Store::runs() const {
  KVIST_TRY(Statement statement, impl_->connection.prepare("SELECT id FROM runs ORDER BY id"));
  std::vector<std::int64_t> ids;
  for (;;) {
    KVIST_TRY(const bool row, statement.step());
    if (!row) return ids;
    ids.push_back(statement.integer());
  }
}

Result<RunRecord> Store::load_run(std::int64_t run) const {
  // One transaction: a level that another process adds meanwhile is there whole or not at all.
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kRead));
  KVIST_TRY(RunRecord record, impl_->load_head(run));
  KVIST_TRY(record.machine, impl_->load_machine(run));
  KVIST_TRY(record.levels, select_levels(impl_->connection, run));
  KVIST_TRY_VOID(transaction.commit());
  return record;
}

}  // namespace kvist::results
