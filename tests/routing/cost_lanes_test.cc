#include "kvist/routing/cost_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/usable_worker.h"

namespace kvist::routing::cost_lanes_test {
namespace {

/// A worker with its prompts, if it has any.
struct Case {
  CostLanes::Worker worker;
  bool has_prompts = false;
  CostLanes::Queue queue;
  UsableWorker usable;
};

/// The cost that the bounds are of, in double precision, if a worker's own share is what is given.
double cost(const Case& one, const CostLanes::Query& query, std::uint32_t longest_prompt, double share) {
  const CostLanes::Worker& w = one.worker;
  const auto weight = [&](std::size_t i) { return w.own[i] + w.others * query.fleet[i]; };
  const UsableWorker& usable = one.usable;
  const PrefillWork work{.uncached = static_cast<double>(usable.prompt_tokens - usable.cached_tokens),
                         .cached = static_cast<double>(usable.cached_tokens)};
  const double paid = usable.paid(longest_prompt);
  const double prefill = weight(2) * work.uncached + weight(3) * work.pairs();
  const auto step_ms = [&](const CostLanes::Step& step, double of_context) {
    const double fleet = static_cast<double>(query.fleet_ratios[step.batch]);
    return (step.prior_ms + w.per_prompt_token * query.least_prompt_tokens + of_context) *
           (fleet + share * (step.own_ratio - fleet));
  };
  const double with = step_ms(w.with, query.per_kv_token_ms * query.least_prompt_tokens);
  const double without = step_ms(w.without, 0);
  double queue = 0;
  if (one.has_prompts) {
    const CostLanes::Queue& q = one.queue;
    const auto of = [&](const PrefillSum& sum) { return weight(2) * sum.uncached + weight(3) * sum.pairs; };
    const double way_out = q.base_ms + q.others * query.fleet[0] + (q.steps + q.others * query.fleet[1]) * without;
    const double begun = std::max(q.ready, q.last_first_token - way_out) - query.now_ms;
    queue = std::max(0.0, begun + of(q.head)) + of(q.after);
  }
  KvPolicy::Terms terms{.ttft_ms = queue + weight(0) + weight(1) * with,
                        .queue_ms = queue,
                        .prefill_ms = prefill * paid,
                        .fleet_prefill_ms = query.fleet[2] * work.uncached + query.fleet[3] * work.pairs(),
                        .held_up_ms = w.returning.held_up_ms(queue, prefill),
                        .own_ms = query.answer_tokens * with,
                        .crowding_ms = query.answer_tokens / 2 * w.batch * std::max(0.0, with - without),
                        .interruption_ms = w.decoding * prefill * paid,
                        .paid = paid};
  return KvPolicy::sum(terms, query.prices);
}

class Fleet {
 public:
  explicit Fleet(std::uint64_t seed) : random_(seed), ratios_(300) {
    for (float& ratio : ratios_) ratio = static_cast<float>(between(0.3, 3));
    query_ = {.now_ms = between(0, 1e9),
              .least_prompt_tokens = std::floor(std::exp(between(0, 19))),
              .per_kv_token_ms = between(0, 1e-4),
              .fleet = {between(1, 60), between(0.5, 3), between(1e-3, 0.2), between(1e-8, 1e-5)},
              .fleet_ratios = ratios_,
              .prices = {.waiting = random_.uniform() < 0.5 ? 0 : between(0, 20),
                         .later = between(0.2, 5),
                         .recomputed = random_.uniform() < 0.5 ? 0 : between(0, 40)},
              .answer_tokens = between(1, 8'000)};
    lengths_differ_ = random_.uniform() < 0.3;
    lack_copies_ = random_.uniform() < 0.4;
    longest_prompt_ = static_cast<std::uint32_t>(query_.least_prompt_tokens * (lengths_differ_ ? between(1, 2) : 1));
    cases_.resize(static_cast<std::size_t>(random_.uniform_int(1, 50)));
    for (Case& one : cases_) make(one);
  }

  void expect_bounds() {
    CostLanes lanes(cases_.size());
    lanes.set_base(query_.now_ms - between(0, 8'000));
    const std::size_t size = WorkerLanes::padded(cases_.size());
    std::vector<std::uint32_t> tokens(size), cached(size), missing(size);
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Case& one = cases_[i];
      const WorkerId id(static_cast<std::uint32_t>(i));
      // What was there before must not be left over.
      lanes.set(id, cases_.front().worker, &cases_.front().queue, query_.now_ms);
      lanes.set(id, one.worker, one.has_prompts ? &one.queue : nullptr, query_.now_ms);
      tokens[i] = one.usable.prompt_tokens;
      cached[i] = one.usable.cached_tokens;
      missing[i] = one.usable.replicate_tokens;
    }
    CostLanes::Request request{.longest_prompt_tokens = longest_prompt_, .cached = cached};
    if (lengths_differ_) request.tokens = tokens;
    if (lack_copies_) request.missing = missing;
    std::vector<float> bounds(size);
    lanes.bound(query_, request, bounds);
    std::vector<float> elsewhere(bounds.size());
    lanes.bound(query_, request, elsewhere, CostLanes::Instructions::kAnyMachine);
    EXPECT_EQ(bounds, elsewhere) << "decisions are the same on every machine";
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const CostLanes::Worker& worker = cases_[i].worker;
      const auto bound = static_cast<double>(bounds[i]);
      const double least = cost(cases_[i], query_, longest_prompt_, worker.least_share);
      EXPECT_LE(bound, least);
      EXPECT_LE(bound, cost(cases_[i], query_, longest_prompt_, worker.share));
      if (worker.least_share == worker.share) {
        EXPECT_GE(bound, least * 0.95 - 2) << "it is no closer bound than needed";
      }
    }
  }

 private:
  double between(double least, double most) { return least + random_.uniform() * (most - least); }
  void make(Case& one) {
    CostLanes::Worker& w = one.worker;
    w.others = between(0, 1);
    for (std::size_t i = 0; i < w.own.size(); ++i) w.own[i] = (1 - w.others) * query_.fleet[i] * between(0.1, 4);
    w.batch = std::floor(between(0, 298));
    w.with = {
        .prior_ms = between(5, 60), .own_ratio = between(0.3, 3), .batch = static_cast<std::uint32_t>(w.batch) + 1};
    w.without = {.prior_ms = w.with.prior_ms * between(0.9, 1),
                 .own_ratio = w.with.own_ratio,
                 .batch = static_cast<std::uint32_t>(w.batch)};
    w.share = between(0, 1);
    w.least_share = random_.uniform() < 0.5 ? w.share : w.share * between(0.99, 1);
    w.per_prompt_token = random_.uniform() < 0.8 ? 0 : between(0, 1e-4);
    w.decoding = std::floor(between(0, w.batch));
    w.returning = {.per_ms = between(0, 0.01), .saved_ms = between(0, 10'000)};
    one.has_prompts = random_.uniform() < 0.5;
    one.queue = {.ready = query_.now_ms - between(-3'000, 60'000),
                 .last_first_token = random_.uniform() < 0.1 ? 0 : query_.now_ms - between(0, 60'000),
                 .others = between(0, 1),
                 .base_ms = between(0, 50),
                 .steps = between(0, 3),
                 .head = {.uncached = between(0, 100'000), .pairs = between(0, 1e9)},
                 .after = {.uncached = between(0, 200'000), .pairs = between(0, 1e10)}};
    UsableWorker& usable = one.usable;
    const auto count = [&](double most) { return static_cast<std::uint32_t>(between(0, most)); };
    usable.prompt_tokens = static_cast<std::uint32_t>(query_.least_prompt_tokens);
    if (lengths_differ_) usable.prompt_tokens += count(longest_prompt_ - usable.prompt_tokens + 1);
    usable.cached_tokens = random_.uniform() < 0.5 ? 0 : count(usable.prompt_tokens + 1);
    if (random_.uniform() < 0.2) usable.cached_tokens = usable.prompt_tokens - std::min(usable.prompt_tokens, count(9));
    if (lack_copies_ && random_.uniform() < 0.5) usable.replicate_tokens = count(longest_prompt_ + 1);
  }

  RandomStream random_;
  std::uint32_t longest_prompt_ = 0;
  bool lengths_differ_ = false;
  bool lack_copies_ = false;
  std::vector<float> ratios_;
  CostLanes::Query query_;
  std::vector<Case> cases_;
};

TEST(CostLanes, BoundsAreNeverAboveTheCostAndCloseToIt) {
  const std::uint64_t first = std::random_device()();
  for (std::uint64_t seed = first; seed < first + 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fleet(seed).expect_bounds();
    if (HasFailure()) return;
  }
}

TEST(CostLanes, SoManyValuesOrMoreAreUpToTheLimitThatIsFoundForThem) {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int i = 0; i < 2'000; ++i) {
    std::vector<float> values(WorkerLanes::padded(static_cast<std::size_t>(random.uniform_int(1, 1'000))), kNever);
    const auto finite = static_cast<std::size_t>(random.uniform_int(1, static_cast<std::int64_t>(values.size())));
    for (std::size_t k = 0; k < finite; ++k) values[k] = static_cast<float>(random.uniform_int(0, 500));
    const auto wanted =
        static_cast<std::size_t>(random.uniform_int(1, static_cast<std::int64_t>(std::min<std::size_t>(finite, 80))));
    const float limit = CostLanes::at_least_so_many(values, wanted);
    EXPECT_LT(limit, kNever);
    EXPECT_GE(std::ranges::count_if(values, [&](float value) { return value <= limit; }),
              static_cast<std::ptrdiff_t>(wanted));
  }
}

TEST(CostLanes, FewMoreThanWantedAreUpToTheLimit) {
  RandomStream random(7);
  std::vector<float> values(WorkerLanes::padded(1'000));
  double found = 0;
  for (int i = 0; i < 200; ++i) {
    for (float& value : values) value = static_cast<float>(random.uniform());
    const float limit = CostLanes::at_least_so_many(values, 8);
    found += static_cast<double>(std::ranges::count_if(values, [&](float value) { return value <= limit; }));
  }
  EXPECT_LT(found / 200, 8 * 4) << "of random values, 8 (1 + 1/2 + ... + 1/8) are expected";
}

TEST(CostLanes, ValuesUpToALimitThatFallsAreVisitedInOrder) {
  const std::vector<float> values = {5, 3, 9, 3, 1, 8, 2, 0};
  std::vector<std::uint32_t> visited;
  float most = 5;
  CostLanes::for_each_up_to(values, most, [&](std::uint32_t i) {
    visited.push_back(i);
    most = std::min(most, values[i]);
  });
  EXPECT_EQ(visited, (std::vector<std::uint32_t>{0, 1, 3, 4, 7}));
}

}  // namespace
}  // namespace kvist::routing::cost_lanes_test
