#include "kvist/analysis/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include "kvist/analysis/client_certificate.h"
#include "kvist/base/check.h"

namespace kvist::analysis {
namespace {

using Analyses = std::vector<const LevelAnalysis*>;

/// The mean over the analyses that have a value.
template <class Get>
std::optional<double> mean_of(const Analyses& all, const Get& get) {
  double sum = 0;
  std::size_t n = 0;
  for (const LevelAnalysis* a : all) {
    const std::optional<double> value = get(*a);
    if (!value) continue;
    sum += *value;
    ++n;
  }
  if (n == 0) return std::nullopt;
  return sum / static_cast<double>(n);
}

PublishedFigures published_means(const Analyses& all) {
  PublishedFigures merged;
  for (const auto figure :
       {&PublishedFigures::ttft_p50_ms, &PublishedFigures::ttft_p95_ms, &PublishedFigures::tpot_p50_ms,
        &PublishedFigures::tpot_p95_ms, &PublishedFigures::itl_p50_ms, &PublishedFigures::itl_p95_ms,
        &PublishedFigures::latency_p50_ms, &PublishedFigures::latency_p95_ms, &PublishedFigures::output_tokens_per_s,
        &PublishedFigures::turns_per_s, &PublishedFigures::conversation_starts_per_s, &PublishedFigures::error_pct}) {
    (merged.*figure).mean = mean_of(all, [&](const LevelAnalysis& a) { return (a.published.*figure).mean; });
    for (const LevelAnalysis* a : all) (merged.*figure).snapshots += (a->published.*figure).snapshots;
  }
  return merged;
}

Distribution distribution_of(const Analyses& all, Distribution ExactFigures::* metric) {
  Distribution merged;
  for (const auto figure : {&Distribution::mean, &Distribution::standard_deviation, &Distribution::p50,
                            &Distribution::p90, &Distribution::p95, &Distribution::p99}) {
    merged.*figure = mean_of(all, [&](const LevelAnalysis& a) -> std::optional<double> {
                       const Distribution& d = a.exact.*metric;
                       return d.count > 0 ? std::optional(d.*figure) : std::nullopt;
                     }).value_or(0);
  }
  for (const LevelAnalysis* a : all) {
    const Distribution& d = a->exact.*metric;
    if (d.count == 0) continue;
    merged.min = merged.count == 0 ? d.min : std::min(merged.min, d.min);
    merged.max = merged.count == 0 ? d.max : std::max(merged.max, d.max);
    merged.count += d.count;
  }
  return merged;
}

ExactFigures exact_means(const Analyses& all) {
  ExactFigures merged;
  for (const auto metric :
       {&ExactFigures::ttft_ms, &ExactFigures::tpot_ms, &ExactFigures::itl_ms, &ExactFigures::itl_request_mean_ms,
        &ExactFigures::latency_ms, &ExactFigures::ttft_from_schedule_ms, &ExactFigures::latency_from_schedule_ms}) {
    merged.*metric = distribution_of(all, metric);
  }
  for (const auto rate :
       {&ExactFigures::output_tokens_per_s, &ExactFigures::turns_per_s, &ExactFigures::conversation_starts_per_s,
        &ExactFigures::goodput_per_s, &ExactFigures::good_pct}) {
    merged.*rate = mean_of(all, [&](const LevelAnalysis& a) { return a.exact.*rate; });
  }
  merged.window_s = all.front()->exact.window_s;
  merged.lacks_earlier_turns = all.front()->exact.lacks_earlier_turns;
  return merged;
}

void add(TurnCounts& sum, const TurnCounts& counts) {
  sum.succeeded += counts.succeeded;
  sum.failed += counts.failed;
  sum.abandoned += counts.abandoned;
}

HitRate hit_rate_of(const Analyses& all) {
  HitRate merged;
  for (const LevelAnalysis* a : all) {
    for (const auto tokens : {&HitRate::client_prompt_tokens, &HitRate::client_cached_tokens,
                              &HitRate::worker_query_tokens, &HitRate::worker_hit_tokens}) {
      merged.*tokens += a->hit_rate.*tokens;
    }
  }
  for (const auto pct : {&HitRate::workers_pct, &HitRate::difference_points})
    merged.*pct = mean_of(all, [&](const LevelAnalysis& a) { return a.hit_rate.*pct; });
  // A repetition without cached tokens is one without hits, if another one shows that they are reported.
  for (const auto pct : {&HitRate::client_pct, &HitRate::turn_mean_pct}) {
    const bool any = std::ranges::any_of(all, [&](const LevelAnalysis* a) { return (a->hit_rate.*pct).has_value(); });
    if (!any) continue;
    merged.*pct = mean_of(all, [&](const LevelAnalysis& a) {
      const HitRate& rate = a.hit_rate;
      return rate.*pct || rate.client_prompt_tokens == 0 ? rate.*pct : std::optional(0.0);
    });
  }
  return merged;
}

/// Sums by worker, in the order of their first mention.
std::vector<WorkerShare> shares_of(const Analyses& all) {
  std::vector<WorkerShare> merged;
  std::size_t total = 0;
  for (const LevelAnalysis* a : all) {
    for (const WorkerShare& share : a->worker_shares) {
      auto known = std::ranges::find(merged, share.worker, &WorkerShare::worker);
      if (known == merged.end()) known = merged.insert(merged.end(), {share.worker, 0, 0});
      known->turns += share.turns;
      total += share.turns;
    }
  }
  for (WorkerShare& share : merged) {
    share.share = total > 0 ? static_cast<double>(share.turns) / static_cast<double>(total) : 0;
  }
  return merged;
}

PredictedCache predicted_of(const Analyses& all) {
  PredictedCache merged;
  double error = 0;
  for (const LevelAnalysis* a : all) {
    merged.turns += a->predicted.turns;
    merged.predicted_tokens += a->predicted.predicted_tokens;
    merged.cached_tokens += a->predicted.cached_tokens;
    error += a->predicted.mean_absolute_error_tokens.value_or(0) * static_cast<double>(a->predicted.turns);
  }
  if (merged.turns > 0) merged.mean_absolute_error_tokens = error / static_cast<double>(merged.turns);
  return merged;
}

std::vector<TurnGroup> groups_of(const Analyses& all, std::vector<TurnGroup> LevelAnalysis::* groups) {
  std::vector<const std::vector<TurnGroup>*> repetitions;
  for (const LevelAnalysis* a : all) repetitions.push_back(&(a->*groups));
  return merge_groups(repetitions);
}

/// The sum; nothing if one of the values is not known.
std::optional<CacheBounds> bounds_of(const Analyses& all) {
  CacheBounds merged{.sizes_known = true};
  for (const LevelAnalysis* a : all) {
    if (!a->cache_bounds) return std::nullopt;
    merged.block_size = a->cache_bounds->block_size;
    merged.sizes_known = merged.sizes_known && a->cache_bounds->sizes_known;
    for (const auto tokens : {&CacheBounds::prompt_tokens, &CacheBounds::endless, &CacheBounds::routed_endless,
                              &CacheBounds::fleet, &CacheBounds::routed}) {
      merged.*tokens += (*a->cache_bounds).*tokens;
    }
  }
  return merged;
}

LevelAnalysis merged_analysis(const Analyses& all, bool excluded) {
  LevelAnalysis merged;
  merged.mode = all.front()->mode;
  merged.concurrency = all.front()->concurrency;
  merged.published = published_means(all);
  merged.exact = exact_means(all);
  merged.error_pct = mean_of(all, [](const LevelAnalysis& a) { return a.error_pct; });
  merged.excluded = excluded;
  merged.hit_rate = hit_rate_of(all);
  merged.cache_bounds = bounds_of(all);
  merged.by_turn = groups_of(all, &LevelAnalysis::by_turn);
  merged.by_prompt = groups_of(all, &LevelAnalysis::by_prompt);
  merged.worker_shares = shares_of(all);
  merged.imbalance = mean_of(all, [](const LevelAnalysis& a) { return a.imbalance; });
  merged.predicted = predicted_of(all);
  for (const LevelAnalysis* a : all) {
    add(merged.all_turns, a->all_turns);
    add(merged.window_turns, a->window_turns);
    if (a->prefilled_tokens) merged.prefilled_tokens = merged.prefilled_tokens.value_or(0) + *a->prefilled_tokens;
    merged.client.grade = std::max(merged.client.grade, a->client.grade);
    for (const std::string& reason : a->client.reasons) {
      if (std::ranges::find(merged.client.reasons, reason) == merged.client.reasons.end()) {
        merged.client.reasons.push_back(reason);
      }
    }
    const auto middle = static_cast<std::ptrdiff_t>(merged.sorted_ttft_ms.size());
    merged.sorted_ttft_ms.insert(merged.sorted_ttft_ms.end(), a->sorted_ttft_ms.begin(), a->sorted_ttft_ms.end());
    std::inplace_merge(merged.sorted_ttft_ms.begin(), merged.sorted_ttft_ms.begin() + middle,
                       merged.sorted_ttft_ms.end());
  }
  return merged;
}

/// Adds repetition number `nth` (from 1) of a worker to the sum of those before it.
void add_worker(results::WorkerLevelRecord& sum, const results::WorkerLevelRecord& worker, double nth) {
  using results::WorkerLevelRecord;
  for (const auto counter : {&WorkerLevelRecord::prefix_query_tokens, &WorkerLevelRecord::prefix_hit_tokens,
                             &WorkerLevelRecord::prompt_tokens, &WorkerLevelRecord::prefilled_tokens,
                             &WorkerLevelRecord::generated_tokens, &WorkerLevelRecord::preemptions}) {
    sum.*counter += worker.*counter;
  }
  if (sum.evictions && worker.evictions) {
    *sum.evictions += *worker.evictions;
  } else {
    sum.evictions.reset();
  }
  sum.restarts += worker.restarts;
  if (worker.acceptance_rate) {
    const double before = sum.acceptance_rate.value_or(*worker.acceptance_rate);
    sum.acceptance_rate = before + (*worker.acceptance_rate - before) / nth;
  }
  sum.kv_usage_max = std::max(sum.kv_usage_max, worker.kv_usage_max);
  sum.running_mean += (worker.running_mean - sum.running_mean) / nth;
  sum.waiting_max = std::max(sum.waiting_max, worker.waiting_max);
}

/// Of delays and of processor time the worse.
void add_client(const results::ClientHealth& client, results::ClientHealth& merged) {
  using results::ClientHealth;
  for (const auto delay : {&ClientHealth::loop_delay_p99_ms, &ClientHealth::loop_delay_max_ms, &ClientHealth::cpu_share,
                           &ClientHealth::send_delay_p99_ms}) {
    merged.*delay = std::max(merged.*delay, client.*delay);
  }
  add_certificate(merged.certificate, client.certificate);
}

/// By name, with the clock of the first repetition and the largest of what it may be wrong by and gained.
void add_agent(const results::LoadAgent& agent, std::vector<results::LoadAgent>& merged) {
  const auto known = std::ranges::find(merged, agent.name, &results::LoadAgent::name);
  if (known == merged.end()) return merged.push_back(agent);
  known->turns += agent.turns;
  known->clock_bound = std::max(known->clock_bound, agent.clock_bound);
  if (!agent.clock_drift || !known->clock_drift) {
    known->clock_drift.reset();
  } else if (std::chrono::abs(*agent.clock_drift) > std::chrono::abs(*known->clock_drift)) {
    known->clock_drift = agent.clock_drift;
  }
  if (!known->lost) known->lost = agent.lost;
  add_client(agent.client, known->client);
}

void add_record(results::LevelRecord& merged, const results::LevelRecord& record, std::size_t nth) {
  for (const results::WorkerLevelRecord& worker : record.workers) {
    auto known = std::ranges::find(merged.workers, worker.worker, &results::WorkerLevelRecord::worker);
    if (known == merged.workers.end()) {
      merged.workers.push_back(worker);
    } else {
      add_worker(*known, worker, static_cast<double>(nth));
    }
  }
  add_client(record.client, merged.client);
  for (const results::LoadAgent& agent : record.agents) add_agent(agent, merged.agents);
  merged.snapshots.insert(merged.snapshots.end(), record.snapshots.begin(), record.snapshots.end());
  for (const std::string& remark : record.remarks) {
    merged.remarks.push_back(fmt::format("repetition {}: {}", record.repetition + 1, remark));
  }
}

results::LevelRecord merged_record(const std::vector<Measurement>& repetitions) {
  results::LevelRecord merged = repetitions.front().record;
  if (repetitions.size() == 1) return merged;
  merged.workers.clear();
  merged.client.certificate.reset();
  merged.agents.clear();
  merged.snapshots.clear();
  merged.remarks.clear();
  std::size_t nth = 0;
  for (const Measurement& repetition : repetitions) add_record(merged, repetition.record, ++nth);
  return merged;
}

}  // namespace

Measurement measure(const results::LevelRecord& level, const spec::MethodSpec& method, const CacheContext* caches,
                    Schedule schedule) {
  Measurement measurement;
  measurement.analysis = analyse(level, method, schedule);
  if (caches != nullptr) {
    const std::optional<LevelCaches> found = level_caches(level, *caches);
    if (found) measurement.analysis.cache_bounds = found->bounds;
    measurement.analysis.first_prompts = first_prompts(level);
    measurement.analysis.objections = objections_to(level, found);
  }
  measurement.analysis.by_turn = groups_by_turn(level);
  measurement.analysis.by_prompt = groups_by_prompt(level);
  measurement.analysis.replicates = bootstrap_percentiles(level, schedule);
  measurement.timelines = condense(level);
  measurement.record = {.mode = level.mode,
                        .concurrency = level.concurrency,
                        .repetition = level.repetition,
                        .seed = level.seed,
                        .started_utc = level.started_utc,
                        .started = level.started,
                        .measure_from = level.measure_from,
                        .measure_to = level.measure_to,
                        .snapshots = level.snapshots,
                        .turns = {},
                        .workers = level.workers,
                        .timelines = {},
                        .client = level.client,
                        .agents = level.agents,
                        .remarks = level.remarks};
  return measurement;
}

std::size_t MeasuredLevel::counted() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(repetitions, [&](const Measurement& repetition) { return counts(repetition); }));
}

std::optional<Spread> MeasuredLevel::spread(LevelFigure figure) const {
  std::vector<double> values;
  for (const Measurement& repetition : repetitions) {
    const std::optional<double> value = counts(repetition) ? figure(repetition.analysis) : std::nullopt;
    if (value && std::isfinite(*value)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  const Distribution d = describe(std::move(values));
  return Spread{
      .count = d.count, .mean = d.mean, .standard_deviation = d.standard_deviation, .min = d.min, .max = d.max};
}

const Measurement& timeline_shown(const MeasuredLevel& level) {
  const Measurement* shown = &level.repetitions.front();
  for (const Measurement& repetition : level.repetitions) {
    if (repetition.timelines.empty()) continue;
    if (shown->timelines.empty() || repetition.timelines.ttft_p95_ms > shown->timelines.ttft_p95_ms) {
      shown = &repetition;
    }
  }
  return *shown;
}

MeasuredLevel merge_repetitions(std::vector<Measurement> repetitions) {
  KVIST_CHECK(!repetitions.empty(), "a level without a measurement");
  MeasuredLevel level;
  level.record = merged_record(repetitions);
  if (repetitions.size() == 1) {
    level.analysis = repetitions.front().analysis;
  } else {
    const bool excluded =
        std::ranges::all_of(repetitions, [](const Measurement& repetition) { return repetition.analysis.excluded; });
    Analyses counted;
    for (const Measurement& repetition : repetitions) {
      if (excluded || !repetition.analysis.excluded) counted.push_back(&repetition.analysis);
    }
    level.analysis = merged_analysis(counted, excluded);
  }
  for (Measurement& repetition : repetitions) repetition.analysis.sorted_ttft_ms = {};  // the merged analysis has them
  level.repetitions = std::move(repetitions);
  return level;
}

}  // namespace kvist::analysis
