#include <fmt/format.h>

#include <memory>

#include "kvist/base/yaml.h"
#include "kvist/report/report.h"

namespace kvist::report {

Result<StoredRun> open_run(const results::Store& store, std::int64_t run, bool with_timelines) {
  KVIST_TRY(results::RunRecord header, store.load_head(run));
  KVIST_TRY(std::vector<results::LevelHead> levels, store.levels(run));
  if (levels.empty()) return fail(ErrorCode::kNotFound, fmt::format("run {} has no finished level", run));
  KVIST_TRY(const YamlNode node, YamlNode::parse(header.spec_yaml, fmt::format("specification of run {}", run)));
  KVIST_TRY(spec::SweepSpec sweep, spec::read_sweep(node, "."));
  const auto pending = std::make_shared<std::vector<results::LevelHead>>(std::move(levels));
  const auto next = std::make_shared<std::size_t>(0);
  LevelSource source = [&store, pending, next, with_timelines]() -> Result<std::optional<results::LevelRecord>> {
    if (*next == pending->size()) return std::nullopt;
    KVIST_TRY(results::LevelRecord level, store.load_level((*pending)[(*next)++].id, {.timelines = with_timelines}));
    return level;
  };
  return StoredRun{.header = std::move(header), .sweep = std::move(sweep), .next_level = std::move(source)};
}

Result<RunAnalysis> analyse_run(const StoredRun& run) {
  std::vector<Measurement> measurements;
  while (true) {
    KVIST_TRY(const std::optional<results::LevelRecord> level, run.next_level());
    if (!level) break;
    measurements.push_back(measure(*level, run.sweep.method));
  }
  return RunAnalysis(run.header, run.sweep, std::move(measurements));
}

}  // namespace kvist::report
