#include <fmt/format.h>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::CacheBounds;

std::optional<double> percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string share_cell(std::uint64_t cached, std::uint64_t bound, bool known) {
  return known ? render::format_pct(percent(cached, bound)) : std::string(render::kMissing);
}

std::vector<std::string> row_of(const analysis::MeasuredLevel& level, const CacheBounds& bounds) {
  const std::uint64_t cached = level.analysis.hit_rate.client_cached_tokens;
  const auto rate = [&](std::uint64_t tokens, bool known) {
    return known ? render::format_pct(percent(tokens, bounds.prompt_tokens)) : std::string(render::kMissing);
  };
  return {fmt::format("{}", level.analysis.concurrency),
          analysis::short_name(level.analysis.mode),
          rate(cached, true),
          rate(bounds.endless, true),
          share_cell(cached, bounds.endless, true),
          rate(bounds.fleet, bounds.sizes_known),
          share_cell(cached, bounds.fleet, bounds.sizes_known),
          rate(bounds.routed_endless, true),
          rate(bounds.routed, bounds.sizes_known),
          share_cell(cached, bounds.routed, bounds.sizes_known)};
}

}  // namespace

void add_cache_bounds(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft},
                   {"Hit rate"},    {"Endless cache"},
                   {"share of it"}, {"Fleet's memory"},
                   {"share of it"}, {"As routed, endless"},
                   {"As routed"},   {"share of it"}};
  std::uint32_t block_size = 0;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const std::optional<CacheBounds>& bounds = level.analysis.cache_bounds;
    if (!bounds) continue;
    block_size = bounds->block_size;
    table.rows.push_back(row_of(level, *bounds));
  }
  if (table.rows.empty()) return;
  document.push_back(render::Heading{2, "What the caches could have saved"});
  document.push_back(render::Paragraph{{{fmt::format(
      "The most that could have been reused in blocks of {} tokens, over the prompts of the whole level. Endless "
      "cache: "
      "one for all workers that forgets nothing, which only the workload bounds. Fleet's memory: one cache as large as "
      "all workers' together, which knows the future and keeps what is needed soonest; no routing can do better. As "
      "routed: the same per worker, with the requests where they went, and endless: without a limit. So the way from "
      "the fleet's memory to as routed is what routing lost, and from there to the hit rate what the engine's own "
      "eviction and the room that running requests need took.",
      block_size)}}});
  document.push_back(std::move(table));
}

}  // namespace kvist::report
