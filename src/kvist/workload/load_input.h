// The source of turns for a level.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/spec/workload.h"
#include "kvist/text/token_prose.h"
#include "kvist/workload/arm_texts.h"
#include "kvist/workload/dataset.h"
#include "kvist/workload/mix.h"
#include "kvist/workload/recorded_level.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/think_time.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// The file that a workload's `trace` names, loaded before the run (results::load_input). At most one member is set,
/// none if the workload draws conversations. It is shared by all levels of a run. Threads: any.
struct LoadInput {
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const RecordedLevel> recorded;
  std::shared_ptr<const std::vector<ChatScript>> scripts = nullptr;  ///< conversations to drive in place of drawn ones
  std::shared_ptr<const std::vector<WorkloadPart>> mix = nullptr;    ///< in place of the workload's own conversations
  std::shared_ptr<const text::TokenProse> tokens = nullptr;          ///< lengths are in its tokens; null: in bytes
  ThinkTime think_time = {};  ///< of conversations: before each turn but the first
  ArmTexts texts = {};        ///< of conversations: what a comparison changes in them
};

/// Refuses a load that cannot be driven: check_workload(), or a trace that was not loaded.
[[nodiscard]] Result<void> check_load(const spec::WorkloadSpec& spec, const LoadInput& input);

/// Makes the texts of a load before its start, because that takes long. Returns null for a replay. Errors:
/// check_load()'s.
[[nodiscard]] Result<std::shared_ptr<const Mix>> prepare_texts(const spec::WorkloadSpec& spec, const LoadInput& input,
                                                               std::uint64_t seed);

/// Makes the source of a level that begins at `start`: conversations drawn from `seed` (LoadDriver), a trace whose
/// prompts follow from `seed` (TraceSource), or a recorded level with its own seed (RecordedRunSource). `concurrency`
/// is how many run at once or, with open arrivals, how many start per minute. Traces in an open loop have no such
/// limit. Errors: check_load()'s, concurrency 0.
[[nodiscard]] Result<std::unique_ptr<TurnSource>> make_turn_source(const spec::WorkloadSpec& spec,
                                                                   const LoadInput& input, std::uint32_t concurrency,
                                                                   std::uint64_t seed, TimePoint start);
/// The same with the texts that prepare_texts() made of this seed; with a shard, that part of it. Errors: also
/// kUnsupported for a part of a recorded level. Requires: no fewer places than parts.
[[nodiscard]] Result<std::unique_ptr<TurnSource>> make_turn_source(const spec::WorkloadSpec& spec,
                                                                   const LoadInput& input,
                                                                   std::shared_ptr<const Mix> texts,
                                                                   std::uint32_t concurrency, std::uint64_t seed,
                                                                   TimePoint start, const Shard& shard = {});

/// The remark about a level in which open arrivals found no place: they were refused, or `sent_late`; nothing if none
/// were.
[[nodiscard]] std::optional<std::string> refused_starts(const spec::WorkloadSpec& spec, std::uint64_t refused,
                                                        std::uint64_t sent_late, std::uint64_t started);

}  // namespace kvist::workload
