// Loads the file that a workload replays.
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/results/store.h"
#include "kvist/spec/trace_spec.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/recorded_level.h"

namespace kvist::results {

/// Loads what `trace.file` names: a Mooncake trace (*.jsonl), or level `trace.level` of run `trace.run` of a results
/// database. Nothing if no file is named. Errors: the file's, an unknown run or level, a run that replayed a trace
/// itself.
[[nodiscard]] Result<workload::LoadInput> load_input(const spec::TraceSpec& trace);

/// The level at `position` of a run (0: the last run), as a replay needs it. Turns that were never sent have the
/// instant they were due.
[[nodiscard]] Result<workload::RecordedLevel> load_recorded_level(const Store& store, std::int64_t run,
                                                                  std::int64_t position);

}  // namespace kvist::results
