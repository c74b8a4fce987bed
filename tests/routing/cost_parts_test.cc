#include "kvist/routing/cost_parts.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/router.h"

namespace kvist::routing::cost_parts_test {
namespace {

// A fleet with few slots and little memory, in which requests of shared prefixes begin and end at random.
TEST(CostParts, AddUpToTheCostByWhichItWasChosen) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  const std::vector<WorkerView> fleet(
      5,
      {.available = true, .events_exact = true, .limits = {.block_size = 64, .kv_blocks = 300, .max_batch_size = 6}});
  Router router({.model = "m",
                 .block_size = 64,
                 .workers = fleet.size(),
                 .mode = spec::RoutingMode::kKv,
                 .session_affinity = {.form = spec::SessionAffinitySpec::Form::kSoft}});
  std::vector<RequestHandle> live;
  TimePoint now{};
  std::size_t accounts = 0, scarce = 0, waited = 0;
  for (std::uint64_t i = 1; i <= 600; ++i) {
    now += std::chrono::milliseconds(random.uniform_int(1, 40));
    if (live.size() > 20 && random.uniform() < 0.5) {
      const auto at = random.uniform_int(0, static_cast<std::int64_t>(live.size()) - 1);
      router.on_first_token(live[static_cast<std::size_t>(at)], now);
      router.on_finished(live[static_cast<std::size_t>(at)], true, now);
      live.erase(live.begin() + at);
    }
    auto blocks = std::make_shared<std::vector<kv::BlockHash>>();
    const auto prefix = static_cast<std::uint64_t>(random.uniform_int(0, 5));
    for (std::uint64_t b = 0; b < 30; ++b) blocks->emplace_back(mix_seed({prefix, b < 20 ? 0 : i, b}));
    const auto decision = router.route({.request = RequestId(i),
                                        .prompt_tokens = 30 * 64 + 9,
                                        .blocks = blocks,
                                        .session = prefix + 1,
                                        .excluded = {}},
                                       fleet, now);
    ASSERT_TRUE(decision);
    live.push_back(decision->request);
    const DecisionRecord& record = router.log().newest(0);
    const auto account = account_of(record);
    if (!account) continue;  // turns, as forecasts were too wrong
    ++accounts;
    ASSERT_EQ(account->parts.size(), record.candidates.size());
    for (std::size_t c = 0; c < record.candidates.size(); ++c) {
      EXPECT_EQ(account->parts[c].worker, record.candidates[c].worker);
      EXPECT_NEAR(account->parts[c].sum(), record.candidates[c].cost, 1e-9 * record.candidates[c].cost);
      scarce += account->parts[c].scarcity_ms > 0 ? 1 : 0;
    }
    waited += account->waiting > 0 ? 1 : 0;
  }
  EXPECT_GT(accounts, 100U);
  EXPECT_GT(scarce, 0U);
  EXPECT_GT(waited, 0U);
}

TEST(CostParts, WhatIsComputedAgainIsOneOfThem) {
  DecisionRecord record;
  record.mode = spec::RoutingMode::kKv;
  record.prompt_tokens = 1'000;
  record.block_size = 16;
  record.recomputed = 0.5;
  record.mean_waiting = 2;
  record.candidates.push_back({.worker = WorkerId(0), .load = {}});
  record.candidates.front().forecast = {.prefill_ms = 100, .fleet_prefill_ms = 80, .ttft_ms = 120};
  KvPolicy policy;
  (void)policy.choose(record.query(), record.candidates);
  const auto account = account_of(record);
  ASSERT_TRUE(account);
  EXPECT_DOUBLE_EQ(account->parts.front().recomputed_ms, 2 * 0.5 * (1 + 6.5 * 2) * 80);
  EXPECT_DOUBLE_EQ(account->parts.front().sum(), record.candidates.front().cost);
}

TEST(CostParts, OtherModesTurnsAndRecordsThatLackTheFleetHaveNone) {
  DecisionRecord record;
  record.candidates.resize(1);
  EXPECT_FALSE(account_of(record));
  record.mode = spec::RoutingMode::kKv;
  EXPECT_TRUE(account_of(record));
  record.left_out = 3;  // as an earlier version recorded it
  EXPECT_FALSE(account_of(record));
  record.fleet = FoundFleet{.waiting = 2};
  ASSERT_TRUE(account_of(record));
  EXPECT_EQ(account_of(record)->waiting, 2);
  record.reason = DecisionReason::kSafetyNet;
  EXPECT_FALSE(account_of(record));
}

}  // namespace
}  // namespace kvist::routing::cost_parts_test
