#include "kvist/routing/kv_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::routing::kv_policy_test {
namespace {

constexpr std::uint32_t kPrompt = 5'000;

PolicyQuery query() {
  return {.request = RequestId(1), .prompt_tokens = kPrompt, .block_size = 32};
}

/// A worker that caches so many tokens of the prompt, at 0.1 ms per token of prefill and 25 ms per step, 400 of which
/// are an answer.
Candidate worker(std::uint32_t id, std::uint32_t cached_tokens, double crowding_ms = 0) {
  Candidate candidate;
  candidate.worker = WorkerId(id);
  candidate.cached_blocks = cached_tokens / 32;
  candidate.cached_tokens = cached_tokens;
  Forecast& forecast = candidate.forecast;
  forecast.step_ms = forecast.step_with_ms = 25;
  forecast.prefill_ms = 0.1 * (kPrompt - cached_tokens);
  forecast.ttft_ms = 60 + forecast.prefill_ms;
  forecast.crowding_ms = crowding_ms;
  forecast.answer_tokens = 400;
  return candidate;
}

std::uint32_t choose(std::vector<Candidate> candidates) {
  KvPolicy policy;
  return candidates[policy.choose(query(), candidates)].worker.value();
}

TEST(KvPolicy, AConversationGoesHome) {
  EXPECT_EQ(choose({worker(0, 0), worker(1, 4'800), worker(2, 3'200)}), 1U);
}

TEST(KvPolicy, AHomeThatCostsMoreThanItSavesIsLeft) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 4'800)};  // saves 480 ms
  candidates[1].forecast.queue_ms = 600;
  candidates[1].forecast.ttft_ms += 600;
  EXPECT_EQ(choose(candidates), 0U);
}

TEST(KvPolicy, AJumpOfTheStepTimeCountsForAllWhoDecodeThere) {
  // 32 sequences would each wait 12 ms longer per step, for a prefill of 200 ms.
  EXPECT_EQ(choose({worker(0, 4'800, 32 * 12), worker(1, 2'800, 3)}), 1U);
  EXPECT_EQ(choose({worker(0, 4'800, 32 * 0.5), worker(1, 2'800, 3)}), 0U);
}

TEST(KvPolicy, ALongerStepWeighsAsMuchAsAnswersAreLong) {
  std::vector<Candidate> candidates = {worker(0, 4'800, 32 * 2), worker(1, 2'800, 3)};
  EXPECT_EQ(choose(candidates), 1U);
  for (Candidate& candidate : candidates) candidate.forecast.answer_tokens = 40;
  EXPECT_EQ(choose(candidates), 0U);
}

// 12.8 s of later tokens against 200 ms of prefill: they count a twentieth, and a fortieth beside first tokens that
// count twice. The other way round, a first token that counts for less is no reason to crowd.
TEST(KvPolicy, FirstTokensCountAsMuchAsTheObjectiveSays) {
  std::vector<Candidate> candidates = {worker(0, 4'800, 32 * 1), worker(1, 2'800, 3)};
  const auto chosen = [&](double weight) {
    PolicyQuery asked = query();
    asked.ttft_weight = weight;
    KvPolicy policy;
    return candidates[policy.choose(asked, candidates)].worker.value();
  };
  EXPECT_EQ(chosen(1), 1U);
  EXPECT_EQ(chosen(2), 0U);
  candidates[0].forecast.crowding_ms = 32 * 0.5;
  EXPECT_EQ(chosen(1), 0U);
  EXPECT_EQ(chosen(0.5), 1U);
}

// A cached prefix is worth its prefill to all who wait, but nothing to those who are only on their way.
TEST(KvPolicy, RequestsInTransitWaitForNobody) {
  std::vector<Candidate> candidates = {worker(0, 2'800), worker(1, 4'800)};
  candidates[1].forecast.queue_ms = 60;  // 60 + 4 x 60 ms, against 200 ms of prefill
  candidates[1].forecast.ttft_ms += 60;
  for (Candidate& candidate : candidates) {
    candidate.forecast.fleet_prefill_ms = candidate.forecast.prefill_ms;
    candidate.load.requests = 20;  // none of them decodes
  }
  const auto chosen = [&](double in_transit) {
    PolicyQuery asked = query();
    asked.in_transit = in_transit;
    KvPolicy policy;
    return candidates[policy.choose(asked, candidates)].worker.value();
  };
  EXPECT_EQ(chosen(0), 1U) << "20 wait, and a prefill of 200 ms delays each of them";
  EXPECT_EQ(chosen(19.99), 0U);
  EXPECT_EQ(chosen(1'000), 0U) << "fewer than none do not wait";
}

// 200 ms of prefill against a wait of 60 ms, which counts five times.
TEST(KvPolicy, APromptStaysWithItsCacheWhereWhatItWouldEvictIsMissed) {
  std::vector<Candidate> candidates = {worker(0, 2'800), worker(1, 4'800)};
  candidates[1].forecast.queue_ms = 60;
  candidates[1].forecast.ttft_ms += 60;
  for (Candidate& candidate : candidates) candidate.forecast.fleet_prefill_ms = candidate.forecast.prefill_ms;
  const auto chosen = [&](double recomputed, double mean_waiting) {
    PolicyQuery asked = query();
    asked.recomputed = recomputed;
    asked.mean_waiting = mean_waiting;
    KvPolicy policy;
    return candidates[policy.choose(asked, candidates)].worker.value();
  };
  EXPECT_EQ(chosen(0, 0), 0U);
  EXPECT_EQ(chosen(0.1, 0), 0U);
  EXPECT_EQ(chosen(0.3, 0), 1U);
  EXPECT_EQ(chosen(0.1, 0.3), 1U) << "computing it again will delay those who wait then";
  EXPECT_EQ(chosen(0, 10), 0U);
}

TEST(KvPolicy, SaysHowManyWait) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0)};
  for (Candidate& candidate : candidates) candidate.load.requests = 3;
  KvPolicy policy;
  EXPECT_FALSE(policy.found());
  (void)policy.choose(query(), candidates);
  ASSERT_TRUE(policy.found());
  EXPECT_EQ(policy.found()->waiting, 3);
}

// A prefill makes the answers longer for whose ends they wait, by no more than itself.
TEST(KvPolicy, WhoWaitsForASlotCountsLess) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0)};
  for (Candidate& candidate : candidates) {
    candidate.limits.max_batch_size = 4;
    candidate.load.requests = 24;
    candidate.load.decoding = 3;
  }
  KvPolicy policy;
  (void)policy.choose(query(), candidates);
  EXPECT_DOUBLE_EQ(policy.found().value().waiting, 1 + 20 * 0.15);
  candidates[0].load.decoding = 10;  // answers that are not streamed, whose first tokens are assumed
  (void)policy.choose(query(), candidates);
  EXPECT_DOUBLE_EQ(policy.found().value().waiting, ((1 + 20 * 0.15) + 14 * 0.15) / 2);
}

TEST(KvPolicy, PrefillGoesWhereItInterruptsTheFewest) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0)};
  candidates[0].load.decoding = 10;
  candidates[1].load.decoding = 5;
  candidates[1].forecast.ttft_ms += 590;  // a quarter of 500 ms of prefill for 5 requests more is worse
  EXPECT_EQ(choose(candidates), 1U);
  candidates[1].forecast.ttft_ms += 110;
  EXPECT_EQ(choose(candidates), 0U);
}

class KvPolicyWait : public testing::Test {
 protected:
  /// Worker `i` has no room for the request until `wait_ms` have passed.
  void fill(std::size_t i, double wait_ms) {
    Forecast& forecast = candidates_[i].forecast;
    forecast.has_slot = false;
    forecast.ttft_ms += wait_ms - forecast.slot_wait_ms;
    forecast.slot_wait_ms = wait_ms;
  }

  std::vector<Candidate> candidates_ = {worker(0, 4'992), worker(1, 0)};  // the cache saves 500 ms
};

TEST_F(KvPolicyWait, ForASlotCountsFiveTimes) {
  for (Candidate& candidate : candidates_) {
    candidate.limits.max_batch_size = 8;
    candidate.load.requests = 8;
  }
  candidates_[1].load.requests = 7;
  fill(0, 96);
  EXPECT_EQ(choose(candidates_), 0U) << "480 of 500";
  fill(0, 108);
  EXPECT_EQ(choose(candidates_), 1U) << "540 of 500";
  candidates_[1].load.requests = 8;
  fill(1, 120);
  EXPECT_EQ(choose(candidates_), 0U) << "nobody has a slot, and the other waits longer";
}

TEST_F(KvPolicyWait, ForASlotIsAQuestionOfTimeIfNobodyHasOne) {
  for (Candidate& candidate : candidates_) {
    candidate.limits.max_batch_size = 8;
    candidate.load.requests = candidate.load.decoding = 8;
  }
  fill(1, 100);
  fill(0, 400);
  EXPECT_EQ(choose(candidates_), 0U) << "300 more of 500";
  fill(0, 1'300);
  EXPECT_EQ(choose(candidates_), 0U) << "1,200 more of 500, and of 1,000 for which the others would stand still";
  fill(0, 1'700);
  EXPECT_EQ(choose(candidates_), 1U);
}

TEST_F(KvPolicyWait, ForMemoryCountsTwentyTimesWhileAnotherHasRoom) {
  fill(0, 24);
  EXPECT_EQ(choose(candidates_), 0U) << "480 of 500";
  fill(0, 27);
  EXPECT_EQ(choose(candidates_), 1U) << "540 of 500";
}

TEST_F(KvPolicyWait, ForMemoryIsAQuestionOfTimeIfNobodyHasRoom) {
  fill(0, 400);
  fill(1, 10);
  EXPECT_EQ(choose(candidates_), 0U) << "390 of 500";
  fill(0, 600);
  EXPECT_EQ(choose(candidates_), 1U) << "590 of 500";
}

TEST(KvPolicy, WhatAPromptDisplacesCountsLikeItsPrefill) {
  std::vector<Candidate> candidates = {worker(0, 4'992), worker(1, 0)};  // the cache saves 500 ms
  candidates[0].forecast.displaced_ms = 480;
  EXPECT_EQ(choose(candidates), 0U);
  candidates[0].forecast.displaced_ms = 540;
  EXPECT_EQ(choose(candidates), 1U);
}

TEST(KvPolicy, ThoseWhoComeForTheCacheAreHeldUpWhereManyWait) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0)};
  candidates[0].forecast.held_up_ms = 200;
  candidates[1].forecast.ttft_ms += 300;
  EXPECT_EQ(choose(candidates), 0U) << "nobody waits";
  candidates[0].load.requests = candidates[1].load.requests = 1;  // one waits per worker
  EXPECT_EQ(choose(candidates), 1U) << "400 of 300";
  candidates[0].forecast.held_up_ms = 140;
  EXPECT_EQ(choose(candidates), 0U) << "280 of 300";
  candidates[0].forecast.held_up_ms = 1e6;
  candidates[0].replicate_tokens = kPrompt;
  EXPECT_EQ(choose(candidates), 0U) << "a copy that the fleet needs";
}

TEST(KvPolicy, WhatIsLostIsNoReasonToStay) {
  std::vector<Candidate> candidates = {worker(0, 4'992), worker(1, 0)};
  candidates[0].forecast.scarce = true;  // credited like the other: nothing
  candidates[0].forecast.lost_tokens = 4'992;
  candidates[0].forecast.prefill_ms = candidates[1].forecast.prefill_ms;
  candidates[0].forecast.ttft_ms = candidates[1].forecast.ttft_ms;
  EXPECT_EQ(KvPolicy().choose(query(), candidates), 0U) << "the lower id";
  EXPECT_GT(candidates[0].cost, 0);
  EXPECT_DOUBLE_EQ(candidates[0].cost, candidates[1].cost) << "what is lost is computed once, and counted once";
}

TEST(KvPolicy, ScarceRoomIsNotGivenAwayForCacheAlone) {
  std::vector<Candidate> candidates = {worker(0, 4'800), worker(1, 3'200)};
  candidates[0].forecast.scarce = true;
  candidates[0].forecast.mean_requests = 50;
  EXPECT_EQ(choose(candidates), 1U) << "160 ms of prefill do not count, and else it is the fuller one";
  candidates[1].forecast.ttft_ms += 300;
  EXPECT_EQ(choose(candidates), 0U) << "it is the better one even without its cache";
}

TEST(KvPolicy, NearTiesPreferTheDeeperCacheThenTheLowerLoadOverTime) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0), worker(2, 0)};
  candidates[0].forecast.mean_requests = 9;
  candidates[1].forecast.mean_requests = 7;
  candidates[2].forecast.mean_requests = 8;
  candidates[1].forecast.ttft_ms += 5;
  EXPECT_EQ(choose(candidates), 1U);
  candidates[2].cached_tokens = 32;
  EXPECT_EQ(choose(candidates), 2U);
}

TEST(KvPolicy, WorkersThatCostTheSameTakeTurns) {
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0), worker(2, 0)};
  candidates[0].forecast.since_routed_ms = 3;
  candidates[1].forecast.since_routed_ms = 9;
  candidates[2].forecast.since_routed_ms = 6;
  candidates[1].forecast.mean_requests = 50;
  EXPECT_EQ(choose(candidates), 1U) << "given no request for longest";
  candidates[1].load.requests = 1;
  EXPECT_EQ(choose(candidates), 2U) << "a prompt waits at the other";
  candidates[1].load.requests = 0;
  candidates[2].cached_tokens = 32;
  EXPECT_EQ(choose(candidates), 2U) << "the deeper cache comes first";
  candidates[0].forecast.ttft_ms -= 200;
  EXPECT_EQ(choose(candidates), 0U) << "no tie";
}

TEST(KvPolicy, APrefixThatDeservesACopyCostsNothingWhereItIsMissing) {
  std::vector<Candidate> candidates = {worker(0, 4'800, 30), worker(1, 0)};
  EXPECT_EQ(choose(candidates), 0U);
  candidates[1].replicate_tokens = 4'800;
  EXPECT_EQ(choose(candidates), 1U);
}

TEST(KvPolicy, WrongForecastsAreNotUsed) {
  KvPolicy policy;
  const auto choose_with_error = [&](double error) {
    std::vector<Candidate> candidates = {worker(0, 0), worker(1, 4'800), worker(2, 0)};
    for (Candidate& candidate : candidates) candidate.forecast.error = error;
    return candidates[policy.choose(query(), candidates)].worker.value();
  };
  EXPECT_EQ(choose_with_error(0.2), 1U);
  EXPECT_FALSE(policy.fell_back());
  EXPECT_EQ(choose_with_error(0.95), 2U);
  EXPECT_TRUE(policy.fell_back());
  EXPECT_EQ(choose_with_error(0.8), 0U) << "turns go on until the forecasts are clearly better";
  EXPECT_EQ(choose_with_error(0.8), 1U);
  EXPECT_EQ(choose_with_error(0.8), 2U);
  EXPECT_EQ(choose_with_error(0.3), 1U);
  EXPECT_FALSE(policy.fell_back());
}

TEST(KvPolicy, WithoutForecastsTurnsGoOnWhereNobodyHasAFreeSlot) {
  KvPolicy policy;
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0), worker(2, 0), worker(3, 0)};
  for (Candidate& candidate : candidates) {
    candidate.forecast.error = 0.95;
    candidate.limits.max_batch_size = 8;
    candidate.load.requests = candidate.load.decoding = 8;
  }
  candidates[2].load.requests = candidates[2].load.decoding = 6;
  for (int i = 0; i < 42; ++i) ++candidates[policy.choose(query(), candidates)].load.requests;
  EXPECT_TRUE(policy.fell_back());
  for (const Candidate& candidate : candidates)
    EXPECT_EQ(candidate.load.requests, 18U) << "worker " << candidate.worker.value();
}

TEST(KvPolicy, ItsStateIsAllThatAnotherChoiceDependsOn) {
  KvPolicy policy;
  std::vector<Candidate> candidates = {worker(0, 0), worker(1, 0), worker(2, 0)};
  for (Candidate& candidate : candidates) candidate.forecast.error = 3;
  for (int i = 0; i < 7; ++i) {
    KvPolicy again;
    again.set_state(policy.state());
    std::vector<Candidate> copy = candidates;
    EXPECT_EQ(again.choose(query(), copy), policy.choose(query(), candidates)) << i;
  }
}

}  // namespace
}  // namespace kvist::routing::kv_policy_test
