// Runs in SQLite.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/results/records.h"

namespace kvist::results {

/// One database file; schema in docs/formats/results.md. A level is written in one transaction as soon as it is
/// measured, so a run that breaks off keeps its finished levels. One thread.
class Store {
 public:
  /// Opens or creates; refuses a file of another application or a newer schema.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const std::string& path);
  ~Store();

  /// Begins a run (its `levels` are not written here) and returns its number in this database.
  [[nodiscard]] Result<std::int64_t> begin_run(const RunRecord& run);
  [[nodiscard]] Result<void> add_level(std::int64_t run, const LevelRecord& level);
  [[nodiscard]] Result<void> finish_run(std::int64_t run, const std::string& finished_utc);

  [[nodiscard]] Result<std::vector<std::int64_t>> runs() const;
  /// A whole run with all its samples.
  [[nodiscard]] Result<RunRecord> load_run(std::int64_t run) const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::results
