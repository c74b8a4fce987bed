#include "kvist/planning/capacity_tables.h"

#include <fmt/format.h>

#include <cmath>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"

namespace kvist::planning {
namespace {

using render::Align;
using render::Table;

/// What the column of an interval has where means alone decided.
constexpr std::string_view kNoInterval = "none";

std::string interval_text(bool is_lacking, std::uint32_t low, std::uint32_t high, bool open_end) {
  if (is_lacking) return std::string(kNoInterval);
  return open_end ? fmt::format("{} or more", low) : fmt::format("{} - {}", low, high);
}

std::string limit_text(const std::optional<Objective>& objective) {
  return objective ? to_string(*objective) : std::string("the search's limit");
}

std::string signed_text(double value, int decimals) {
  const std::string text = fmt::format("{:+.{}f}", value, decimals);
  return value == 0 ? "0" : text;
}

/// Of a search that ended at its limit only a bound is known.
std::string gain_text(const KnobGain& gain, bool open_below, bool open_above) {
  if (open_below && open_above) return "unknown";
  return signed_text(gain.users, 0) + (open_above ? " or more" : open_below ? " or less" : "");
}

std::string_view verdict_text(const Judgement& level) {
  const bool by_means = level.lacks_interval();
  switch (level.verdict) {
    case Verdict::kUnknown:
      return "unknown";
    case Verdict::kHolds:
      return by_means ? "holds by its means" : "holds";
    case Verdict::kBreaks:
      return by_means ? "breaks by its means" : "breaks";
    case Verdict::kUndecided:
      return level.holds_on_average() ? "holds on average" : "breaks on average";
  }
  return {};
}

std::string figure_text(const ObjectiveEstimate& estimate) {
  if (!estimate.figure) return "unknown";
  const double factor = analysis::headline(estimate.objective.figure).factor;
  const double mean = estimate.figure->mean * factor;
  const int decimals = mean < 100 ? 1 : 0;
  if (!std::isfinite(estimate.figure->high)) return fmt::format("{:.{}f}", mean, decimals);
  if (estimate.blocks) {
    return fmt::format("{:.{}f} ({:.{}f} - {:.{}f})", mean, decimals, estimate.figure->low * factor, decimals,
                       estimate.figure->high * factor, decimals);
  }
  return fmt::format("{:.{}f} +- {:.{}f}", mean, decimals, estimate.figure->high * factor - mean, decimals);
}

}  // namespace

Table capacity_table(const CapacityPlan& plan) {
  Table table{.columns = {{"mode", Align::kLeft},
                          {"users", Align::kCenter},
                          {fmt::format("{:.0f} % interval", 100 * plan.confidence), Align::kCenter},
                          {"users per GPU", Align::kCenter},
                          {"tokens/s there", Align::kCenter},
                          {"limited by", Align::kLeft}},
              .rows = {}};
  const double gpus = gpus_of(plan.sweep.deployment);
  for (const Capacity& capacity : plan.capacities) {
    if (capacity.unknown) {
      const std::string missing(render::kMissing);
      table.rows.push_back({std::string(to_string(capacity.mode)), "unknown", missing, missing, missing, missing});
      continue;
    }
    std::optional<double> throughput;
    for (const Judgement& level : capacity.levels) {
      if (level.users == capacity.users) throughput = level.mean(Headline::kThroughput);
    }
    table.rows.push_back({std::string(to_string(capacity.mode)), fmt::format("{}", capacity.users),
                          interval_text(capacity.lacks_interval, capacity.surely, capacity.at_most, capacity.at_limit),
                          render::format_fixed(capacity.users / gpus, 1), render::format_fixed(throughput, 0),
                          limit_text(capacity.limited_by)});
  }
  return table;
}

Table workers_table(const CapacityPlan& plan) {
  Table table{.columns = {{"mode", Align::kLeft},
                          {"users", Align::kCenter},
                          {"workers", Align::kCenter},
                          {fmt::format("{:.0f} % interval", 100 * plan.confidence), Align::kCenter},
                          {"GPUs", Align::kCenter},
                          {"one less breaks", Align::kLeft}},
              .rows = {}};
  for (const WorkersNeeded& needed : plan.needed) {
    if (needed.unknown) {
      const std::string missing(render::kMissing);
      table.rows.push_back(
          {std::string(to_string(needed.mode)), fmt::format("{}", needed.users), "unknown", missing, missing, missing});
      continue;
    }
    const bool found = needed.workers > 0;
    const std::uint32_t gpus = found ? gpus_of(with_workers(plan.sweep, needed.workers).deployment) : 0;
    table.rows.push_back(
        {std::string(to_string(needed.mode)), fmt::format("{}", needed.users),
         found ? fmt::format("{}", needed.workers) : "no number is enough",
         interval_text(needed.lacks_interval, needed.surely_needs, needed.surely_enough, needed.surely_enough == 0),
         found ? fmt::format("{}", gpus) : std::string(render::kMissing),
         needed.limited_by ? to_string(*needed.limited_by) : std::string(render::kMissing)});
  }
  return table;
}

Table knob_table(const KnobTable& knobs) {
  Table table{.columns = {{"knob", Align::kLeft},
                          {"from", Align::kLeft},
                          {"to", Align::kLeft},
                          {"users", Align::kCenter},
                          {"gain", Align::kCenter},
                          {"interval of the gain", Align::kCenter},
                          {"GPUs", Align::kCenter},
                          {"gain per GPU", Align::kCenter},
                          {"limited by, or why not", Align::kLeft}},
              .rows = {}};
  for (const KnobGain& gain : knobs.gains) {
    if (!gain.capacity) {
      const std::string missing(render::kMissing);
      table.rows.push_back({gain.knob, gain.from, gain.to, missing, missing, missing, fmt::format("{}", gain.gpus),
                            missing, gain.impossible});
      continue;
    }
    const bool open_above = gain.capacity->at_limit;
    const bool open_below = knobs.base.at_limit;
    table.rows.push_back(
        {gain.knob, gain.from, gain.to, fmt::format("{}{}", gain.capacity->users, open_above ? " or more" : ""),
         gain_text(gain, open_below, open_above), gain_interval_text(knobs, gain), fmt::format("{}", gain.gpus),
         open_above || open_below ? std::string(render::kMissing) : signed_text(gain.users_per_gpu, 1),
         limit_text(gain.capacity->limited_by)});
  }
  return table;
}

Table level_table(const Capacity& capacity, const Slo& slo) {
  Table table{.columns = {{"users", Align::kCenter}, {"seeds", Align::kCenter}}, .rows = {}};
  for (const Objective& objective : slo) {
    table.columns.push_back({title_with_unit(objective.figure), Align::kCenter});
  }
  table.columns.push_back({"verdict", Align::kLeft});
  for (const Judgement& level : capacity.levels) {
    auto& row = table.rows.emplace_back();
    row = {fmt::format("{}", level.users), fmt::format("{}", level.samples.size())};
    for (const ObjectiveEstimate& estimate : level.objectives) row.push_back(figure_text(estimate));
    row.emplace_back(verdict_text(level));
  }
  return table;
}

bool lacks_interval(const KnobTable& knobs, const KnobGain& gain) {
  return knobs.base.lacks_interval || (gain.capacity && gain.capacity->lacks_interval);
}

std::string gain_interval_text(const KnobTable& knobs, const KnobGain& gain) {
  const bool open_below = !std::isfinite(gain.users_low);
  const bool open_above = !std::isfinite(gain.users_high);
  if (open_below && open_above) return "unknown";
  if (lacks_interval(knobs, gain)) return std::string(kNoInterval);
  if (open_above) return fmt::format("{:+.0f} or more", gain.users_low);
  if (open_below) return fmt::format("{:+.0f} or less", gain.users_high);
  return fmt::format("{:+.0f} to {:+.0f}", gain.users_low, gain.users_high);
}

std::string title_with_unit(Headline which) {
  const analysis::HeadlineFigure& figure = analysis::headline(which);
  return figure.unit.ends_with("/s") ? std::string(figure.title) : fmt::format("{} ({})", figure.title, figure.unit);
}

std::string islands_text(const Capacity& capacity) {
  std::string text;
  const std::size_t count = capacity.holds_again.size();
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == count ? " and " : ", ", capacity.holds_again[i]);
  }
  return text.empty() ? text : text + " users";
}

}  // namespace kvist::planning
