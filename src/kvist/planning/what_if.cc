#include "kvist/planning/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kvist::planning {
namespace {

constexpr std::size_t kLeastCompared = 40;
constexpr std::uint64_t kFirstSeed = 1'000;  // others than the fit's: a search has found the luckiest point for those

/// Every other block: those that are fitted to, and those that are not looked at before the fit is done.
Places every_other(const std::vector<Places>& blocks, std::size_t first) {
  std::vector<Places> chosen;
  for (std::size_t i = blocks.size() == 1 ? 0 : first; i < blocks.size(); i += 2) chosen.push_back(blocks[i]);
  return joined(chosen);
}

Result<void> check_fleet(const workload::RecordedTraffic& traffic, const WhatIfCase& fleet) {
  const std::size_t recorded = traffic.head.workers.size();
  const std::size_t given = fleet.situation.deployment.workers.size();
  if (recorded == given) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the record is of {} workers and the deployment has {}: first comes the fleet as it was",
                          recorded, given));
}

/// The figures that must agree, and by how many times the limit each may be off.
constexpr std::pair<Metric, double> kLimits[] = {
    {Metric::kTtftP50, 1.0}, {Metric::kTpotP50, 1.0}, {Metric::kTtftP95, 2.0}};

std::optional<double> deviation_pct(Metric metric, const LevelFigures& observed, const LevelFigures& computed) {
  if (!observed[metric] || *observed[metric] <= 0) return std::nullopt;
  return computed[metric] ? 100 * (*computed[metric] / *observed[metric] - 1) : -100;
}

/// The largest deviation, in multiples of what is allowed of that figure.
double worst_deviation(const LevelFigures& observed, const LevelFigures& computed) {
  double worst = 0;
  for (const auto& [metric, times] : kLimits) {
    worst = std::max(worst, std::abs(deviation_pct(metric, observed, computed).value_or(0)) / times);
  }
  return worst;
}

/// Where the simulation of what did happen stays too far from it; nothing where it does not.
std::optional<std::string> refusal_of(const WhatIf& answer, double max_error_pct) {
  for (const auto& [metric, times] : kLimits) {
    const std::optional<double> deviation = deviation_pct(metric, answer.observed, answer.fitted);
    if (!deviation || std::abs(*deviation) <= times * max_error_pct) continue;
    return fmt::format(
        "{} of what did happen is {:+.0f} % off in the simulation even with fitted times, and {:.0f} % would be the "
        "most "
        "(--max-error): whatever it said of other policies or fleets would be worth as little. Is the deployment's "
        "engine the one that answered, with its slots, memory and profile?",
        analysis::figure_of(metric).plain_title, *deviation, times * max_error_pct);
  }
  return std::nullopt;
}

class Asking {
 public:
  Asking(const workload::RecordedTraffic& traffic, const WhatIfCase& fleet, const WhatIfOptions& options)
      : traffic_(traffic),
        fleet_(fleet),
        options_(options),
        blocks_(compared_blocks(traffic, options.warmup_share, options.blocks)) {}

  Result<WhatIf> ask(const std::vector<WhatIfCase>& cases) {
    KVIST_TRY_VOID(describe());
    tell("simulating what did happen");
    const Places held_out = every_other(blocks_, 1);
    const std::vector<Answers> observed = {observed_answers(traffic_)};
    answer_.observed = figures_over(observed, held_out);
    KVIST_TRY(const auto before, run({&fleet_.situation, 1}));
    answer_.simulated = figures_over(before.front(), held_out);
    tell("fitting its times to what was observed");
    KVIST_TRY(answer_.calibration,
              calibrate(traffic_, fleet_.situation, every_other(blocks_, 0), {.threads = options_.threads}));
    KVIST_TRY(const auto base, run_fitted(before, held_out));
    answer_.refusal = refusal_of(answer_, options_.max_error_pct);
    if (answer_.refusal) return std::move(answer_);
    std::vector<Situation> situations;
    for (const WhatIfCase& each : cases) {
      KVIST_TRY(Situation fitted, answer_.calibration.applied_to(each.situation));
      situations.push_back(std::move(fitted));
    }
    tell("simulating what would have happened");
    KVIST_TRY(const auto others, run(situations));
    predict(fleet_, base.front(), base.front());
    for (std::size_t i = 0; i < cases.size(); ++i) predict(cases[i], base.front(), others[i]);
    return std::move(answer_);
  }

 private:
  Result<void> describe() {
    const std::vector<workload::TraceRequest>& requests = traffic_.trace.requests;
    answer_.requests = requests.size();
    answer_.following = static_cast<std::size_t>(
        std::ranges::count_if(requests, [](const workload::TraceRequest& r) { return r.after.has_value(); }));
    answer_.unserved = traffic_.unserved;
    answer_.seconds = to_seconds(requests.back().at - requests.front().at);
    answer_.blocks = blocks_.size();
    answer_.seeds = options_.seeds;
    for (const Places& block : blocks_) {
      answer_.compared += block.size();
      answer_.other_modes += static_cast<std::size_t>(std::ranges::count_if(
          block, [&](std::uint32_t place) { return traffic_.observed[place].mode != fleet_.situation.mode; }));
    }
    if (answer_.compared >= kLeastCompared) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} requests were answered whole after the warm-up; want at least {} to compare with",
                            answer_.compared, kLeastCompared));
  }

  /// What did happen with the fitted times or, if they mislead, as it was simulated before.
  Result<std::vector<std::vector<Answers>>> run_fitted(const std::vector<std::vector<Answers>>& before,
                                                       const Places& held_out) {
    KVIST_TRY(const Situation fitted, answer_.calibration.applied_to(fleet_.situation));
    KVIST_TRY(auto base, run({&fitted, 1}));
    answer_.fitted = figures_over(base.front(), held_out);
    if (!fit_misleads(answer_.observed, answer_.simulated, answer_.fitted)) return base;
    answer_.left_out = std::exchange(answer_.calibration, Calibration{});
    answer_.fitted = answer_.simulated;
    return before;
  }

  Result<std::vector<std::vector<Answers>>> run(std::span<const Situation> situations) const {
    return replay_all(traffic_, situations, kFirstSeed, options_.seeds, options_.threads);
  }

  void predict(const WhatIfCase& of, const std::vector<Answers>& base, const std::vector<Answers>& runs) {
    Prediction prediction{.of = of, .figures = {}, .simulated = figures_over(runs, joined(blocks_))};
    const std::vector<Answers> seen = {observed_answers(traffic_)};
    const LevelFigures observed = figures_over(seen, joined(blocks_));
    prediction.figures = prediction.simulated;
    for (const Metric metric : kMetrics) {
      std::optional<Change>& change = prediction.changes[static_cast<std::size_t>(metric)];
      change = change_of(metric, base, runs, blocks_);
      if (analysis::figure_of(metric).plain_unit == "ms" && change && observed[metric]) {
        prediction.figures[metric] = *observed[metric] * change->ratio;
      }
    }
    answer_.predictions.push_back(std::move(prediction));
  }

  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  const workload::RecordedTraffic& traffic_;
  const WhatIfCase& fleet_;
  const WhatIfOptions& options_;
  const std::vector<Places> blocks_;
  WhatIf answer_;
};

}  // namespace

spec::RoutingMode recorded_mode(const workload::RecordedTraffic& traffic) {
  std::map<spec::RoutingMode, std::size_t> counts;
  for (const workload::ObservedRequest& observed : traffic.observed) ++counts[observed.mode];
  if (counts.empty()) return spec::RoutingMode::kRoundRobin;
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
}

bool fit_misleads(const LevelFigures& observed, const LevelFigures& simulated, const LevelFigures& fitted) {
  // By so much that it is not for chance alone: of two that are about as good the fit is the better founded one.
  constexpr double kClearly = 2;
  constexpr double kNoticeable = 5;  // percent
  const double with_fit = worst_deviation(observed, fitted);
  return with_fit > kNoticeable && with_fit > kClearly * worst_deviation(observed, simulated);
}

Result<WhatIf> what_if(const workload::RecordedTraffic& traffic, const WhatIfCase& fleet,
                       const std::vector<WhatIfCase>& cases, const WhatIfOptions& options) {
  KVIST_TRY_VOID(check_fleet(traffic, fleet));
  return Asking(traffic, fleet, options).ask(cases);
}

}  // namespace kvist::planning
