// Recorded decisions as JSON (docs/formats/decisions.md), written and read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json_writer.h"
#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// The value of "format".
inline constexpr std::string_view kDecisionsFormat = "kvist-decisions-1";

/// One element of "decisions". `worker_names` by WorkerId; workers beyond it have none.
void write_decision(JsonWriter& json, const DecisionRecord& record, std::span<const std::string> worker_names);

/// A file of decisions.
struct DecisionFile {
  std::vector<DecisionRecord> decisions;  ///< in the order of the file: newest first
  std::vector<std::string> worker_names;  ///< by WorkerId, as far as candidates name them
};

/// Bounds of what is read: larger is refused.
inline constexpr std::size_t kMaxDecisionsBytes = std::size_t{64} << 20;
inline constexpr std::uint64_t kMaxDecisionWorkers = 16'384;

/// Errors: kCorrupt with the path of what is wrong and what would be right ("decisions[3].candidates[0].cost: ...");
/// kTooLarge. What it gives can be replayed: every decision has candidates in ascending order with the chosen one among
/// them. Unknown keys are passed over.
[[nodiscard]] Result<DecisionFile> read_decisions(std::string_view json);

}  // namespace kvist::routing
