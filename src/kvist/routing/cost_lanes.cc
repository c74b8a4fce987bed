#include "kvist/routing/cost_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvist/routing/kv_policy.h"

namespace kvist::routing {
namespace {

using Lanes = CostLanes::Lanes;

constexpr float kLongAgo = -1e30F;
/// Of a sum of points in time in single precision, relative to the largest of them.
constexpr double kTimeRounding = 1e-6;
/// Bounds are lowered by this much, far more than what single precision loses in fifty operations.
constexpr float kRoundingShare = 5e-5F;
constexpr float kRoundingMs = 0.02F;
/// Of a difference, relative to what it is a difference of.
constexpr double kDifferenceRounding = 1e-6;

Lanes all(double value) {
  const auto one = static_cast<float>(value);
  return Lanes{one, one, one, one};
}

}  // namespace

CostLanes::CostLanes(std::size_t workers)
    : blocks_(WorkerLanes::padded(workers) / CostBlock::kWorkers), queues_(blocks_.size()) {
  for (CostQueueBlock& prompts : queues_) {
    prompts.ready.fill(kLongAgo);
    prompts.last.fill(kLongAgo);
  }
}

// The values are parted into as many groups as are wanted, or a few more: no group's least value is above the result.
float CostLanes::at_least_so_many(std::span<const float> values, std::size_t wanted) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr std::size_t kMostRows = 16;
  const std::size_t rows = (wanted + kLanes - 1) / kLanes;
  if (rows > kMostRows || rows * kLanes > values.size()) return kMost;
  std::array<Lanes, kMostRows> least;
  least.fill(all(kMost));
  for (std::size_t at = 0, row = 0; at < values.size(); at += kLanes, row = row + 1 == rows ? 0 : row + 1)
    least[row] = WorkerLanes::lowest(least[row], WorkerLanes::load(values.data() + at));
  Lanes most = least[0];
  for (std::size_t row = 1; row < rows; ++row) most = WorkerLanes::highest(most, least[row]);
  return std::max({most[0], most[1], most[2], most[3]});
}

void CostLanes::set(WorkerId worker, const Worker& values, const Queue* queue, double now_ms) {
  const std::size_t at = worker.value() / CostBlock::kWorkers;
  const std::size_t lane = worker.value() % CostBlock::kWorkers;
  const auto put = [lane](CostBlock::Row& row, double value) { row[lane] = static_cast<float>(value); };
  CostBlock& block = blocks_[at];
  put(block.others, values.others);
  put(block.base, values.own[0]);
  put(block.steps, values.own[1]);
  put(block.per_token, values.own[2]);
  put(block.per_pair, values.own[3]);
  put(block.prior_with, values.with.prior_ms);
  put(block.own_with, values.with.own_ratio);
  put(block.prior, values.without.prior_ms);
  put(block.own, values.without.own_ratio);
  put(block.least_share, values.least_share);
  put(block.share, values.share);
  put(block.per_prompt_token, values.per_prompt_token);
  put(block.batch, values.batch);
  put(block.decoding, values.decoding);
  put(block.returning, values.returning.per_ms);
  put(block.saved, values.returning.saved_ms);
  block.ratio_with[lane] = values.with.batch;
  block.ratio[lane] = values.without.batch;

  CostQueueBlock& prompts = queues_[at];
  const auto bit = static_cast<std::uint8_t>(1U << lane);
  if (queue == nullptr) {
    if ((block.queued & bit) == 0) return;
    block.queued = static_cast<std::uint8_t>(block.queued & ~bit);
    for (CostBlock::Row* row : {&prompts.others, &prompts.base, &prompts.steps, &prompts.head_tokens,
                                &prompts.head_pairs, &prompts.after_tokens, &prompts.after_pairs})
      (*row)[lane] = 0;
    prompts.ready[lane] = prompts.last[lane] = kLongAgo;
    return;
  }
  block.queued = static_cast<std::uint8_t>(block.queued | bit);
  // The wait is the small difference of times that may be long. Twice the time of the prompts is a generous guess.
  const auto prompts_ms = [&](const PrefillSum& sum) {
    return values.own[2] * sum.uncached + values.own[3] * sum.pairs;
  };
  const double spanned_ms = now_ms - base_ms_ + 4 * (prompts_ms(queue->head) + prompts_ms(queue->after));
  const auto put_time = [&](CostBlock::Row& row, double at_ms) {
    const double longest = std::abs(at_ms - base_ms_) + std::abs(at_ms - now_ms) + std::abs(spanned_ms);
    put(row, at_ms - base_ms_ - kTimeRounding * longest);
  };
  put_time(prompts.ready, queue->ready);
  put_time(prompts.last, queue->last_first_token);
  put(prompts.others, queue->others);
  put(prompts.base, queue->base_ms);
  put(prompts.steps, queue->steps);
  put(prompts.head_tokens, queue->head.uncached);
  put(prompts.head_pairs, queue->head.pairs);
  put(prompts.after_tokens, queue->after.uncached);
  put(prompts.after_pairs, queue->after.pairs);
}

namespace {

namespace any_machine {
#include "kvist/routing/cost_lanes_bound.inc"
}  // namespace any_machine

#if defined(__x86_64__) && !defined(__clang__)
#define KVIST_COST_LANES_AVX2
#pragma GCC push_options
#pragma GCC target("avx2")
#define KVIST_COST_LANES_GATHER
namespace avx2 {
#include "kvist/routing/cost_lanes_bound.inc"
}  // namespace avx2
#undef KVIST_COST_LANES_GATHER
#pragma GCC pop_options
#endif

}  // namespace

void CostLanes::bound(const Query& query, const Request& request, std::span<float> bounds,
                      [[maybe_unused]] Instructions instructions) const {
#ifdef KVIST_COST_LANES_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") > 0;
  if (has_avx2 && instructions == Instructions::kBest)
    return avx2::bound(blocks_, queues_.data(), query, base_ms_, request, bounds);
#endif
  any_machine::bound(blocks_, queues_.data(), query, base_ms_, request, bounds);
}

void CostLanes::prefetch(WorkerId worker) const {
  constexpr std::size_t kLine = 64;
  const auto* const block = reinterpret_cast<const std::byte*>(&blocks_[worker.value() / CostBlock::kWorkers]);
  for (std::size_t at = 0; at < sizeof(CostBlock); at += kLine) __builtin_prefetch(block + at, 1);
}

}  // namespace kvist::routing
