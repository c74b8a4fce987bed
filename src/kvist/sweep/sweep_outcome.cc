#include "kvist/sweep/sweep_outcome.h"

#include <utility>
#include <vector>

namespace kvist::sweep {

Result<void> report_outcome(const results::Store& store, std::int64_t run, const spec::SweepSpec& sweep,
                            SweepOutcome& outcome) {
  KVIST_TRY(const results::RunRecord head, store.load_head(run));
  KVIST_TRY(const std::vector<results::LevelHead> levels, store.levels(run));
  auto next = levels.begin();
  const auto next_level = [&]() -> Result<std::optional<results::LevelRecord>> {
    if (next == levels.end()) return std::nullopt;
    return store.load_level((next++)->id);
  };
  KVIST_TRY(report::WrittenReport written, report::write_report(head, sweep, next_level, outcome.directory));
  outcome.files = std::move(written.files);
  outcome.table = std::move(written.table);
  return {};
}

}  // namespace kvist::sweep
