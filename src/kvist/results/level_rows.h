// One level as rows of the database, and back. Private to the module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/sqlite.h"
#include "kvist/results/store.h"

namespace kvist::results {

/// Writes the row of an incomplete level, with mode, concurrency, repetition and seed of `head`, and returns its id.
/// Requires, here and below: the caller holds the transaction, and run and position are free.
[[nodiscard]] Result<std::int64_t> insert_level(const Connection& connection, std::int64_t run, std::int64_t position,
                                                const LevelRecord& head);
/// Appends turns; the first is at `position` of the level.
[[nodiscard]] Result<void> insert_turns(const Connection& connection, std::int64_t id, std::int64_t position,
                                        std::span<const workload::TurnSample> turns);
/// Writes everything else of a level and makes it visible. `level.turns` is ignored.
[[nodiscard]] Result<void> complete_level(const Connection& connection, std::int64_t id, const LevelRecord& level);

/// The complete levels of a run in the order of the plan.
[[nodiscard]] Result<std::vector<LevelHead>> select_heads(const Connection& connection, std::int64_t run);
/// One complete level with its rows.
[[nodiscard]] Result<LevelRecord> select_level(const Connection& connection, std::int64_t id, const LevelParts& parts);

}  // namespace kvist::results
