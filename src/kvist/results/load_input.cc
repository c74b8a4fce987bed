#include "kvist/results/load_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "kvist/base/yaml.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/trace_file.h"

namespace kvist::results {
namespace {

Result<std::int64_t> chosen_run(const Store& store, std::int64_t run) {
  if (run != 0) return run;
  KVIST_TRY(const std::vector<std::int64_t> runs, store.runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, "holds no run");
  return runs.back();
}

Result<spec::WorkloadSpec> workload_of(const Store& store, std::int64_t run) {
  KVIST_TRY(const RunRecord head, store.load_head(run));
  KVIST_TRY(const YamlNode node, YamlNode::parse(head.spec_yaml, fmt::format("specification of run {}", run)));
  KVIST_TRY(spec::SweepSpec sweep, spec::read_sweep(node, "."));
  if (sweep.workload.trace.file.empty()) return std::move(sweep.workload);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("run {} replayed {} itself: replay that file", run, sweep.workload.trace.file));
}

}  // namespace

Result<workload::RecordedLevel> load_recorded_level(const Store& store, std::int64_t run, std::int64_t position) {
  KVIST_TRY(run, chosen_run(store, run));
  KVIST_TRY(spec::WorkloadSpec workload, workload_of(store, run));
  KVIST_TRY(const std::vector<LevelHead> heads, store.levels(run));
  const auto head = std::ranges::find(heads, position, &LevelHead::position);
  if (head == heads.end()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("run {} has no level {}; it has {}", run, position,
                            heads.empty() ? "none" : fmt::format("0 to {}", heads.back().position)));
  }
  KVIST_TRY(const LevelRecord level, store.load_level(head->id, {.gaps = false, .timelines = false}));
  workload::RecordedLevel recorded{.workload = std::move(workload), .seed = level.seed, .turns = {}};
  recorded.turns.reserve(level.turns.size());
  for (const workload::TurnSample& turn : level.turns) {
    // Virtual time begins at 0, so in simulated runs 0 is a valid instant.
    const bool was_sent = turn.sent != TimePoint{} || level.started == TimePoint{};
    recorded.turns.push_back({.conversation = turn.conversation,
                              .turn = turn.turn,
                              .sent = (was_sent ? turn.sent : turn.intended) - level.started});
  }
  return recorded;
}

Result<workload::LoadInput> load_input(const spec::TraceSpec& trace) {
  workload::LoadInput input;
  if (trace.file.empty()) return input;
  if (trace.has_requests()) {
    KVIST_TRY(workload::Trace loaded,
              workload::load_trace(trace.file, {}, {.tokens_per_hash = trace.tokens_per_hash, .rows = trace.rows}));
    KVIST_TRY_VOID(workload::check_instants(loaded, trace, trace.file));
    input.trace = std::make_shared<const workload::Trace>(std::move(loaded));
    return input;
  }
  KVIST_TRY(const auto store, Store::open_to_read(trace.file));
  auto recorded = load_recorded_level(*store, trace.run, trace.level);
  if (!recorded) return std::unexpected(std::move(recorded).error().in(trace.file));
  input.recorded = std::make_shared<const workload::RecordedLevel>(std::move(*recorded));
  return input;
}

}  // namespace kvist::results
