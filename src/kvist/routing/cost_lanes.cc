#include "kvist/routing/cost_lanes.h"

#include <algorithm>
#include <cmath>

#include "kvist/routing/kv_policy.h"

namespace kvist::routing {
namespace {

using Lanes = CostLanes::Lanes;

constexpr float kLongAgo = -1e30F;
/// Of a sum of points in time in single precision, relative to the largest of them.
constexpr double kTimeRounding = 1e-6;
/// Of a difference, relative to what it is a difference of.
constexpr double kDifferenceRounding = 1e-6;

Lanes all(double value) {
  const auto one = static_cast<float>(value);
  return Lanes{one, one, one, one};
}

Lanes highest(Lanes a, Lanes b) {
  return a > b ? a : b;
}

Lanes lowest(Lanes a, Lanes b) {
  return a < b ? a : b;
}

}  // namespace

/// A decision's values in all lanes.
struct CostLanes::Terms {
  explicit Terms(const Query& query, double base_ms);

  Lanes now, prompt, of_context;
  Lanes base, steps, per_token, per_pair;                    // the fleet's weights
  Lanes interruption, occupation, held_up, answer, crowded;  // what times count for in the cost
  bool anyone_waits;
  const float* fleet_ratios;

  [[nodiscard]] Lanes ratios(const std::array<std::uint32_t, kLanes>& batches) const {
    return Lanes{fleet_ratios[batches[0]], fleet_ratios[batches[1]], fleet_ratios[batches[2]],
                 fleet_ratios[batches[3]]};
  }
};

CostLanes::Terms::Terms(const Query& query, double base_ms)
    : now(all(query.now_ms - base_ms)),
      prompt(all(query.prompt_tokens)),
      of_context(all(query.per_kv_token_ms * query.prompt_tokens)),
      base(all(query.fleet[0])),
      steps(all(query.fleet[1])),
      per_token(all(query.fleet[2])),
      per_pair(all(query.fleet[3])),
      interruption(all(query.later * KvPolicy::kInterruptionShare)),
      occupation(all(KvPolicy::kOccupation * query.waiting)),
      held_up(all(KvPolicy::kHeldUpWeight * query.waiting)),
      answer(all(query.later * KvPolicy::kAnswerShare * query.answer_tokens)),
      crowded(all(query.later * KvPolicy::kAnswerShare * query.answer_tokens / 2)),
      anyone_waits(query.waiting > 0),
      fleet_ratios(query.fleet_ratios.data()) {}

/// A step with the request, from below; one without it, from above; and by how much it becomes longer, from below.
struct CostLanes::Steps {
  Lanes with, without, longer;
};

CostLanes::CostLanes(std::size_t workers)
    : blocks_(padded(workers) / kLanes), queues_(blocks_.size()), queued_(blocks_.size()) {
  for (QueueBlock& prompts : queues_) {
    prompts.ready.fill(kLongAgo);
    prompts.last.fill(kLongAgo);
  }
}

void CostLanes::set(WorkerId worker, const Worker& values, const Queue* queue, double now_ms) {
  const std::size_t at = worker.value() / kLanes;
  const std::size_t lane = worker.value() % kLanes;
  const auto put = [lane](Row& row, double value) { row[lane] = static_cast<float>(value); };
  Block& block = blocks_[at];
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

  QueueBlock& prompts = queues_[at];
  const auto bit = static_cast<std::uint8_t>(1U << lane);
  if (queue == nullptr) {
    if ((queued_[at] & bit) == 0) return;
    queued_[at] = static_cast<std::uint8_t>(queued_[at] & ~bit);
    for (Row* row : {&prompts.others, &prompts.base, &prompts.steps, &prompts.overdue_tokens, &prompts.overdue_pairs,
                     &prompts.after_tokens, &prompts.after_pairs})
      (*row)[lane] = 0;
    prompts.ready[lane] = prompts.last[lane] = kLongAgo;
    return;
  }
  queued_[at] = static_cast<std::uint8_t>(queued_[at] | bit);
  // The wait is the small difference of times that may be long. Twice the time of the prompts is a generous guess.
  const auto prompts_ms = [&](const PrefillQueue::Sum& sum) {
    return values.own[2] * sum.uncached + values.own[3] * sum.pairs;
  };
  const double spanned_ms = now_ms - base_ms_ + 4 * (prompts_ms(queue->overdue) + prompts_ms(queue->others_after));
  const auto put_time = [&](Row& row, double at_ms) {
    const double longest = std::abs(at_ms - base_ms_) + std::abs(at_ms - now_ms) + std::abs(spanned_ms);
    put(row, at_ms - base_ms_ - kTimeRounding * longest);
  };
  put_time(prompts.ready, queue->ready);
  put_time(prompts.last, queue->last_first_token);
  put(prompts.others, queue->others);
  put(prompts.base, queue->base_ms);
  put(prompts.steps, queue->steps);
  put(prompts.overdue_tokens, queue->overdue.uncached);
  put(prompts.overdue_pairs, queue->overdue.pairs);
  put(prompts.after_tokens, queue->others_after.uncached);
  put(prompts.after_pairs, queue->others_after.pairs);
}

// All three change in proportion with the worker's own share, so that one end of its range has the least.
CostLanes::Steps CostLanes::steps_of(const Block& block, const Terms& terms) {
  const Lanes least_share = load(block.least_share.data());
  const Lanes share = load(block.share.data());
  const Lanes of_prompt = load(block.per_prompt_token.data()) * terms.prompt;
  const Lanes prior_with = load(block.prior_with.data()) + of_prompt + terms.of_context;
  const Lanes prior = load(block.prior.data()) + of_prompt;
  const Lanes fleet_with = terms.ratios(block.ratio_with);
  const Lanes fleet = terms.ratios(block.ratio);
  const Lanes beside_with = load(block.own_with.data()) - fleet_with;
  const Lanes beside = load(block.own.data()) - fleet;
  const Lanes slope = prior_with * beside_with - prior * beside;
  const Lanes of_fleet = prior_with * fleet_with;
  const Lanes with = of_fleet + prior_with * lowest(least_share * beside_with, share * beside_with);
  const Lanes without = prior * (fleet + highest(least_share * beside, share * beside));
  const Lanes longer = of_fleet - prior * fleet + lowest(least_share * slope, share * slope);
  return {.with = with,
          .without = without,
          .longer = highest(longer - (of_fleet + with) * all(kDifferenceRounding), Lanes{})};
}

// As ReturningRequests::Rate::held_up_ms(), without a difference of squares.
Lanes CostLanes::held_up_ms(const Block& block, Lanes queue, Lanes prefill) {
  const Lanes saved = load(block.saved.data());
  const Lanes from = lowest(queue, saved);
  const Lanes to = lowest(queue + prefill, saved);
  const Lanes waiting = to - from;
  const Lanes delays = waiting * (from + to) * all(0.5) + saved * (prefill - waiting);
  return load(block.returning.data()) * highest(delays - saved * saved * all(kDifferenceRounding), Lanes{});
}

// As CostFloor::queue_ms().
Lanes CostLanes::queue_ms(const QueueBlock& queue, const Terms& terms, Lanes step, Lanes per_token, Lanes per_pair) {
  const auto row = [](const Row& values) { return load(values.data()); };
  const Lanes others = row(queue.others);
  const Lanes way_out = row(queue.base) + others * terms.base + (row(queue.steps) + others * terms.steps) * step;
  const Lanes begun = highest(row(queue.ready), row(queue.last) - way_out) - terms.now;
  const Lanes overdue = per_token * row(queue.overdue_tokens) + per_pair * row(queue.overdue_pairs);
  const Lanes after = per_token * row(queue.after_tokens) + per_pair * row(queue.after_pairs);
  const Lanes free = highest(begun + overdue, lowest(begun + overdue + overdue, Lanes{}));
  return highest(free + after, Lanes{});
}

// The terms are those of KvPolicy::sum().
void CostLanes::bound(const Query& query, const Request& request, std::span<float> bounds) const {
  const Terms terms(query, base_ms_);
  const auto row = [](const Row& values) { return load(values.data()); };
  for (std::size_t at = 0; at < blocks_.size(); ++at) {
    const Block& block = blocks_[at];
    const Lanes uncached = load(request.uncached.data() + at * kLanes);
    const Lanes pairs = load(request.pairs.data() + at * kLanes);
    const Lanes paid = load(request.paid.data() + at * kLanes);
    const Lanes others = row(block.others);
    const Lanes per_token = row(block.per_token) + others * terms.per_token;
    const Lanes per_pair = row(block.per_pair) + others * terms.per_pair;
    const Lanes prefill = per_token * uncached + per_pair * pairs;
    const Lanes fleet_prefill = terms.per_token * uncached + terms.per_pair * pairs;
    const Steps step = steps_of(block, terms);
    const Lanes first = row(block.base) + others * terms.base + (row(block.steps) + others * terms.steps) * step.with;
    const Lanes queue = queued_[at] != 0 ? queue_ms(queues_[at], terms, step.without, per_token, per_pair) : Lanes{};
    Lanes cost =
        first + all(KvPolicy::kQueueWeight) * queue + terms.answer * step.with +
        terms.crowded * row(block.batch) * step.longer +
        paid * (prefill + terms.interruption * row(block.decoding) * prefill + terms.occupation * fleet_prefill);
    if (terms.anyone_waits) cost += terms.held_up * held_up_ms(block, queue, prefill) * paid;
    store(bounds.data() + at * kLanes, highest(cost - cost * all(kRoundingShare) - all(kRoundingMs), Lanes{}));
  }
}

}  // namespace kvist::routing
