// Runs in SQLite.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/results/records.h"

namespace kvist::results {

/// What may be lost when the machine crashes.
enum class Durability {
  kFull,     ///< nothing that was acknowledged; for measurements that cannot be repeated
  kProcess,  ///< possibly the file, but nothing if only this process dies; for results that can be simulated again
};

/// A level of a run, for reading levels one by one.
struct LevelHead {
  std::int64_t id = 0;        ///< for Store::load_level
  std::int64_t position = 0;  ///< index in the run's plan, from 0
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint32_t repetition = 0;
  std::uint64_t seed = 0;
  /// As in LevelRecord. A level that was measured again has the id of the one before it, and began at another instant.
  std::string started_utc = {};
  TimePoint started = {};

  bool operator==(const LevelHead&) const = default;
};

/// Which of a level's large parts to load.
struct LevelParts {
  bool gaps = true;       ///< the token gaps of each turn, which are nine tenths of the bytes
  bool timelines = true;  ///< the workers over time
};

/// One database file; schema in docs/formats/results.md.
///
/// A level is written at once (add_level) or incrementally (begin_level, add_turns, finish_level). Readers do not see
/// it before it is finished, so an interrupted run keeps its finished levels. Several levels may be written at once, in
/// any interleaving: the final content of the file depends on their positions and contents alone.
///
/// Threads: any, but one call at a time. Memory: that of one batch of turns.
class Store {
 public:
  /// Opens or creates a file. A file of an older schema is converted; one of another application or a newer schema is
  /// refused.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::string& path,
                                                           Durability durability = Durability::kFull);
  /// Opens a file that exists, to read it; whatever writes to the store is an error. Neither the file nor its folder is
  /// changed, so that both may be read-only: a file of an older schema is converted in a copy, which is temporary.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open_to_read(const std::string& path);
  ~Store();

  /// Begins a run (its `levels` are not written here) and returns its number in this database.
  [[nodiscard]] Result<std::int64_t> begin_run(const RunRecord& run);
  /// Writes a level at `position` of the run's plan, behind the last one without it. Errors: kInvalidArgument if there
  /// is one.
  [[nodiscard]] Result<void> add_level(std::int64_t run, const LevelRecord& level,
                                       std::optional<std::int64_t> position = {});
  /// Removes the level at `position` of the run's plan, if there is one: it is to be measured again.
  [[nodiscard]] Result<void> remove_level(std::int64_t run, std::int64_t position);
  /// Ends a run, which took `wall_s`. Unfinished levels are removed.
  [[nodiscard]] Result<void> finish_run(std::int64_t run, const std::string& finished_utc, double wall_s = 0);

  /// Begins the level at `position` of the run's plan; of `head` its mode, concurrency, repetition and seed are
  /// written. Removes an unfinished level at that position. Errors: kInvalidArgument if there is a finished one.
  [[nodiscard]] Result<std::int64_t> begin_level(std::int64_t run, std::int64_t position, const LevelRecord& head);
  /// Appends turns. Batches of some hundred are fastest. After an error the level has to be begun again.
  [[nodiscard]] Result<void> add_turns(std::int64_t level, std::span<const workload::TurnSample> turns);
  /// Writes everything but the turns and makes the level visible. Mode, concurrency, repetition and seed stay as they
  /// were begun.
  [[nodiscard]] Result<void> finish_level(std::int64_t level, const LevelRecord& rest);

  [[nodiscard]] Result<std::vector<std::int64_t>> runs() const;
  /// A run without its levels.
  [[nodiscard]] Result<RunRecord> load_head(std::int64_t run) const;
  /// Its finished levels in the order of the plan.
  [[nodiscard]] Result<std::vector<LevelHead>> levels(std::int64_t run) const;
  /// One finished level, so that a reader of a large run holds one at a time.
  [[nodiscard]] Result<LevelRecord> load_level(std::int64_t level, const LevelParts& parts = {}) const;
  /// A run with all its samples.
  [[nodiscard]] Result<RunRecord> load_run(std::int64_t run) const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::results
