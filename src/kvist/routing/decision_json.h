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

/// Writes one element of "decisions". `worker_names` is indexed by WorkerId; workers beyond its end have no name.
void write_decision(JsonWriter& json, const DecisionRecord& record, std::span<const std::string> worker_names);

/// The content of a file of decisions.
struct DecisionFile {
  std::vector<DecisionRecord> decisions;  ///< in the order of the file: newest first
  std::vector<std::string> worker_names;  ///< by WorkerId; empty for a worker that no candidate names
};

/// Bounds of the reader, which refuses a larger file.
inline constexpr std::size_t kMaxDecisionsBytes = std::size_t{64} << 20;
inline constexpr std::uint64_t kMaxDecisionWorkers = 16'384;

/// Errors: kTooLarge, or kCorrupt with the path of what is wrong and what would be right
/// ("decisions[3].candidates[0].cost: ..."). Unknown keys are ignored. Ensures: every decision can be replayed, because
/// its candidates are in ascending order of worker and the chosen one is among them.
[[nodiscard]] Result<DecisionFile> read_decisions(std::string_view json);

}  // namespace kvist::routing
