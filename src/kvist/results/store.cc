#include "kvist/results/store.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/results/level_id.h"
#include "kvist/results/level_rows.h"
#include "kvist/results/schema.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {
namespace {

std::string machine_json(const std::map<std::string, std::string>& machine) {
  JsonWriter writer;
  writer.begin_object();
  for (const auto& [key, value] : machine) writer.field(key, value);
  writer.end_object();
  return writer.take();
}

}  // namespace

class Store::Impl {
 public:
  explicit Impl(Connection c) : connection(std::move(c)) {}

  Connection connection;
  std::map<std::int64_t, std::int64_t> open_levels;  // id -> position of its next turn

  [[nodiscard]] Result<void> require_run(std::int64_t run) const {
    KVIST_TRY(Statement find, connection.prepare("SELECT id FROM runs WHERE id = ?1"));
    find.bind_all(run);
    KVIST_TRY(const bool there, find.step());
    if (!there) return no_run(run);
    if (run < 1 || run > kMaxRuns) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: run {} is out of range; want 1 to {}", connection.path(), run, kMaxRuns));
    }
    return {};
  }

  [[nodiscard]] std::unexpected<Error> no_run(std::int64_t run) const {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no run {}", connection.path(), run));
  }

  [[nodiscard]] Result<std::int64_t> next_position(std::int64_t run) const {
    KVIST_TRY(Statement find, connection.prepare("SELECT COALESCE(MAX(position) + 1, 0) FROM levels WHERE run = ?1"));
    find.bind_all(run);
    KVIST_TRY_VOID(find.step());
    const std::int64_t position = find.integer();
    KVIST_TRY_VOID(find.step());
    return position;
  }

  /// Makes sure that the position is free, and removes an unfinished level there.
  [[nodiscard]] Result<void> free_position(std::int64_t run, std::int64_t position) {
    if (position < 0 || position >= kMaxLevels) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: a level at position {} of a run; want 0 to {}",
                                                           connection.path(), position, kMaxLevels - 1));
    }
    const std::int64_t id = level_id(run, position);
    KVIST_TRY(Statement remove, connection.prepare("DELETE FROM levels WHERE id = ?1 AND complete = 0"));
    KVIST_TRY_VOID(remove.run(id));
    KVIST_TRY(Statement find, connection.prepare("SELECT id FROM levels WHERE id = ?1"));
    find.bind_all(id);
    KVIST_TRY(const bool there, find.step());
    if (!there) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: run {} has a level at position {} already", connection.path(), run, position));
  }

  [[nodiscard]] Result<std::int64_t*> open_level(std::int64_t level) {
    const auto entry = open_levels.find(level);
    if (entry != open_levels.end()) return &entry->second;
    return fail(ErrorCode::kNotFound, fmt::format("{}: level {} is not being written", connection.path(), level));
  }

  [[nodiscard]] Result<RunRecord> load_head(std::int64_t run) const {
    KVIST_TRY(Statement statement,
              connection.prepare("SELECT name, kvist_version, simulated, spec_yaml, started_utc, finished_utc, wall_s, "
                                 "threads FROM runs JOIN provenance ON provenance.run = runs.id WHERE runs.id = ?1"));
    statement.bind_all(run);
    KVIST_TRY(const bool there, statement.step());
    if (!there) return no_run(run);
    RunRecord record;
    record.name = statement.text();
    record.kvist_version = statement.text();
    record.simulated = statement.integer() != 0;
    record.spec_yaml = statement.text();
    record.started_utc = statement.text();
    record.finished_utc = statement.text();
    record.wall_s = statement.real();
    record.threads = statement.integer_as<std::uint32_t>();
    KVIST_TRY_VOID(statement.step());
    KVIST_TRY(record.machine, load_machine(run));
    KVIST_TRY(record.sources, load_sources(run));
    return record;
  }

  [[nodiscard]] Result<std::vector<RunSource>> load_sources(std::int64_t run) const {
    KVIST_TRY(Statement statement, connection.prepare("SELECT place, name, started_utc, levels FROM run_sources WHERE "
                                                      "run = ?1 ORDER BY position"));
    statement.bind_all(run);
    std::vector<RunSource> sources;
    for (;;) {
      KVIST_TRY(const bool row, statement.step());
      if (!row) return sources;
      RunSource& source = sources.emplace_back();
      source.place = statement.text();
      source.name = statement.text();
      source.started_utc = statement.text();
      source.levels = statement.text();
    }
  }

  [[nodiscard]] Result<std::map<std::string, std::string>> load_machine(std::int64_t run) const {
    KVIST_TRY(Statement statement, connection.prepare("SELECT key, CAST(json_each.value AS TEXT) FROM provenance, "
                                                      "json_each(machine) WHERE run = ?1 AND key IS NOT NULL"));
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

Result<std::unique_ptr<Store>> Store::open(const std::string& path, Durability durability) {
  KVIST_TRY(Connection connection, Connection::open(path));
  KVIST_TRY_VOID(prepare_schema(connection));
  if (durability == Durability::kProcess) KVIST_TRY_VOID(connection.execute("PRAGMA synchronous = OFF"));
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(std::move(connection))));
}

Result<std::unique_ptr<Store>> Store::open_to_read(const std::string& path) {
  KVIST_TRY(Connection connection, Connection::open_to_read(path));
  KVIST_TRY(connection, readable(std::move(connection)));
  return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(std::move(connection))));
}

Result<std::int64_t> Store::begin_run(const RunRecord& run) {
  const Connection& connection = impl_->connection;
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO runs (name, kvist_version, simulated, spec_yaml) "
                                                 "VALUES (?1, ?2, ?3, ?4)"));
  KVIST_TRY_VOID(insert.run(run.name, run.kvist_version, run.simulated, run.spec_yaml));
  const std::int64_t id = connection.last_row_id();
  KVIST_TRY(Statement provenance, connection.prepare("INSERT INTO provenance VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
  KVIST_TRY_VOID(
      provenance.run(id, run.started_utc, run.finished_utc, run.wall_s, run.threads, machine_json(run.machine)));
  for (std::size_t i = 0; i < run.sources.size(); ++i) {
    const RunSource& source = run.sources[i];
    KVIST_TRY(Statement row, connection.prepare("INSERT INTO run_sources VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
    KVIST_TRY_VOID(
        row.run(id, static_cast<std::int64_t>(i), source.place, source.name, source.started_utc, source.levels));
  }
  KVIST_TRY_VOID(transaction.commit());
  return id;
}

Result<void> Store::add_level(std::int64_t run, const LevelRecord& level, std::optional<std::int64_t> wanted) {
  const Connection& connection = impl_->connection;
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(impl_->require_run(run));
  KVIST_TRY(const std::int64_t next, impl_->next_position(run));
  const std::int64_t position = wanted.value_or(next);
  KVIST_TRY_VOID(impl_->free_position(run, position));
  KVIST_TRY(const std::int64_t id, insert_level(connection, run, position, level));
  KVIST_TRY_VOID(insert_turns(connection, id, 0, level.turns));
  KVIST_TRY_VOID(complete_level(connection, id, level));
  return transaction.commit();
}

Result<void> Store::remove_level(std::int64_t run, std::int64_t position) {
  const Connection& connection = impl_->connection;
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(impl_->require_run(run));
  KVIST_TRY(Statement remove, connection.prepare("DELETE FROM levels WHERE run = ?1 AND position = ?2"));
  KVIST_TRY_VOID(remove.run(run, position));
  return transaction.commit();
}

Result<void> Store::finish_run(std::int64_t run, const std::string& finished_utc, double wall_s) {
  const Connection& connection = impl_->connection;
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(impl_->require_run(run));
  KVIST_TRY(Statement update,
            connection.prepare("UPDATE provenance SET finished_utc = ?2, wall_s = ?3 WHERE run = ?1"));
  KVIST_TRY_VOID(update.run(run, finished_utc, wall_s));
  KVIST_TRY(Statement remove, connection.prepare("DELETE FROM levels WHERE run = ?1 AND complete = 0"));
  KVIST_TRY_VOID(remove.run(run));
  KVIST_TRY_VOID(transaction.commit());
  std::erase_if(impl_->open_levels, [run](const auto& entry) { return entry.first / kMaxLevels == run; });
  return {};
}

Result<std::int64_t> Store::begin_level(std::int64_t run, std::int64_t position, const LevelRecord& head) {
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(impl_->require_run(run));
  KVIST_TRY_VOID(impl_->free_position(run, position));
  KVIST_TRY(const std::int64_t id, insert_level(impl_->connection, run, position, head));
  KVIST_TRY_VOID(transaction.commit());
  impl_->open_levels[id] = 0;
  return id;
}

Result<void> Store::add_turns(std::int64_t level, std::span<const workload::TurnSample> turns) {
  KVIST_TRY(std::int64_t* const position, impl_->open_level(level));
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(insert_turns(impl_->connection, level, *position, turns));
  KVIST_TRY_VOID(transaction.commit());
  *position += static_cast<std::int64_t>(turns.size());
  return {};
}

Result<void> Store::finish_level(std::int64_t level, const LevelRecord& rest) {
  KVIST_TRY_VOID(impl_->open_level(level));
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(complete_level(impl_->connection, level, rest));
  KVIST_TRY_VOID(transaction.commit());
  impl_->open_levels.erase(level);
  return {};
}

Result<std::vector<std::int64_t>> Store::runs() const {
  KVIST_TRY(Statement statement, impl_->connection.prepare("SELECT id FROM runs ORDER BY id"));
  std::vector<std::int64_t> ids;
  for (;;) {
    KVIST_TRY(const bool row, statement.step());
    if (!row) return ids;
    const std::int64_t id = statement.integer();
    if (!ids.empty() && id <= ids.back()) statement.column_failed("does not ascend");  // pages that lead in a circle
    ids.push_back(id);
  }
}

Result<RunRecord> Store::load_head(std::int64_t run) const {
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kRead));
  KVIST_TRY(RunRecord record, impl_->load_head(run));
  KVIST_TRY_VOID(transaction.commit());
  return record;
}

Result<std::vector<LevelHead>> Store::levels(std::int64_t run) const {
  return select_heads(impl_->connection, run);
}

Result<LevelRecord> Store::load_level(std::int64_t level, const LevelParts& parts) const {
  // One transaction, so that concurrent writes of another process are seen completely or not at all.
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kRead));
  KVIST_TRY(LevelRecord record, select_level(impl_->connection, level, parts));
  KVIST_TRY_VOID(transaction.commit());
  return record;
}

Result<RunRecord> Store::load_run(std::int64_t run) const {
  KVIST_TRY(Transaction transaction, Transaction::begin(impl_->connection, Transaction::Kind::kRead));
  KVIST_TRY(RunRecord record, impl_->load_head(run));
  KVIST_TRY(const std::vector<LevelHead> heads, select_heads(impl_->connection, run));
  for (const LevelHead& head : heads) {
    KVIST_TRY(LevelRecord level, select_level(impl_->connection, head.id, {}));
    record.levels.push_back(std::move(level));
  }
  KVIST_TRY_VOID(transaction.commit());
  return record;
}

}  // namespace kvist::results
