#include "kvist/planning/traffic_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"

namespace kvist::planning {
namespace {

constexpr std::size_t kLeastPerBlock = 20;  // a median of fewer says little

std::optional<double> quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return std::nullopt;
  return quantile_of_sorted(sorted, q);
}

std::vector<double> sorted_latencies(std::span<const Answers> runs, const Places& places) {
  std::vector<double> values;
  for (const Answers& run : runs) {
    for (const std::uint32_t place : places) {
      if (run[place].completed) values.push_back(run[place].latency_ms);
    }
  }
  std::ranges::sort(values);
  return values;
}

}  // namespace

Answers observed_answers(const workload::RecordedTraffic& traffic) {
  Answers answers;
  answers.reserve(traffic.observed.size());
  for (std::size_t i = 0; i < traffic.observed.size(); ++i) {
    const workload::ObservedRequest& seen = traffic.observed[i];
    answers.push_back({.completed = seen.completed,
                       .ttft_ms = seen.ttft_ms,
                       .tpot_ms = seen.tpot_ms,
                       .latency_ms = seen.latency_ms,
                       .prompt_tokens = traffic.trace.requests[i].input_tokens,
                       .cached_tokens = seen.cached_tokens});
  }
  return answers;
}

std::vector<Places> compared_blocks(const workload::RecordedTraffic& traffic, double warmup_share, std::size_t blocks) {
  const std::vector<workload::TraceRequest>& requests = traffic.trace.requests;
  const double length = to_seconds(requests.back().at - requests.front().at);
  const Duration from = requests.front().at + from_seconds(warmup_share * length);
  Places places;
  for (std::uint32_t place = 0; place < requests.size(); ++place) {
    if (requests[place].at >= from && traffic.observed[place].completed) places.push_back(place);
  }
  const std::size_t count =
      std::clamp<std::size_t>(places.size() / kLeastPerBlock, 1, std::max<std::size_t>(1, blocks));
  std::vector<Places> found(count);
  for (std::size_t i = 0; i < places.size(); ++i) found[i * count / places.size()].push_back(places[i]);
  return found;
}

Places joined(std::span<const Places> blocks) {
  Places all;
  for (const Places& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

std::vector<double> sorted_values(std::span<const Answers> runs, const Places& places,
                                  std::optional<double> AnsweredRequest::* value) {
  std::vector<double> values;
  for (const Answers& run : runs) {
    for (const std::uint32_t place : places) {
      if (run[place].completed && run[place].*value) values.push_back(*(run[place].*value));
    }
  }
  std::ranges::sort(values);
  return values;
}

LevelFigures figures_over(std::span<const Answers> runs, const Places& places) {
  LevelFigures figures;
  const std::vector<double> ttft = sorted_values(runs, places, &AnsweredRequest::ttft_ms);
  const std::vector<double> tpot = sorted_values(runs, places, &AnsweredRequest::tpot_ms);
  const std::vector<double> latency = sorted_latencies(runs, places);
  figures[Metric::kTtftP50] = quantile(ttft, 0.5);
  figures[Metric::kTtftP95] = quantile(ttft, 0.95);
  figures[Metric::kTpotP50] = quantile(tpot, 0.5);
  figures[Metric::kTpotP95] = quantile(tpot, 0.95);
  figures[Metric::kLatencyP50] = quantile(latency, 0.5);
  figures[Metric::kLatencyP95] = quantile(latency, 0.95);
  double prompt = 0;
  double cached = 0;
  double failed = 0;
  for (const Answers& run : runs) {
    for (const std::uint32_t place : places) {
      failed += run[place].completed ? 0 : 1;
      if (!run[place].completed || !run[place].cached_tokens) continue;
      prompt += run[place].prompt_tokens;
      cached += *run[place].cached_tokens;
    }
  }
  const double answers = static_cast<double>(runs.size() * places.size());
  if (answers > 0) figures[Metric::kErrorPct] = 100 * failed / answers;
  if (prompt > 0) figures[Metric::kHitRatePct] = 100 * cached / prompt;
  return figures;
}

std::optional<Change> change_of(Metric metric, std::span<const Answers> before, std::span<const Answers> after,
                                std::span<const Places> blocks) {
  const auto ratio_over = [&](const Places& places) -> std::optional<double> {
    const std::optional<double> was = figures_over(before, places)[metric];
    const std::optional<double> is = figures_over(after, places)[metric];
    if (!was || !is || *was <= 0 || *is <= 0) return std::nullopt;
    return *is / *was;
  };
  const std::optional<double> ratio = ratio_over(joined(blocks));
  if (!ratio) return std::nullopt;
  std::vector<double> logarithms;
  for (const Places& block : blocks) {
    if (const auto of_block = ratio_over(block)) logarithms.push_back(std::log(*of_block));
  }
  Change change{.ratio = *ratio};
  if (logarithms.size() < 2) return change;
  const Distribution of_blocks = describe(std::move(logarithms));
  const double half = student_t_quantile(0.975, of_blocks.count - 1) * of_blocks.standard_deviation /
                      std::sqrt(static_cast<double>(of_blocks.count));
  change.low = *ratio * std::exp(-half);
  change.high = *ratio * std::exp(half);
  return change;
}

}  // namespace kvist::planning
