// The choice of the draft length, on a step-time model with round numbers.
#include "kvist/engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvist/base/random.h"

namespace kvist::engine::speculation_test {
namespace {

// One H200 with the 70B model and the EAGLE-3 drafter, as the profiles have them.
perfmodel::StepTimeModel step_time() {
  spec::WorkerSpec worker;
  worker.profile = spec::ProfileSpec();
  worker.speculation.enabled = true;
  return perfmodel::StepTimeModel::of(worker).value();
}

perfmodel::StepLoad decode_load(std::uint64_t batch, std::uint64_t context = 6'000) {
  perfmodel::StepLoad load;
  load.sequences = load.decode_sequences = batch;
  load.kv_tokens_read = load.decode_kv_tokens = batch * context;
  return load;
}

/// Decodes `steps` steps of `batch` sequences, each draft accepted with probability `acceptance`. The drafts' lengths.
std::vector<std::uint32_t> decode(AdaptiveDraftLength& policy, std::uint64_t batch, double acceptance, int steps,
                                  std::uint64_t seed = 1) {
  RandomStream random(seed);
  std::vector<std::uint32_t> lengths;
  for (int step = 0; step < steps; ++step) {
    const std::uint32_t drafts = policy.draft_length(decode_load(batch));
    lengths.push_back(drafts);
    for (std::uint64_t i = 0; i < batch && drafts > 0; ++i) {
      std::uint32_t accepted = 0;
      while (accepted < drafts && random.uniform() < acceptance) ++accepted;
      policy.on_verified(drafts, accepted);
    }
  }
  return lengths;
}

std::size_t with_drafts(const std::vector<std::uint32_t>& lengths) {
  return lengths.size() - static_cast<std::size_t>(std::ranges::count(lengths, 0U));
}

TEST(FixedDraftLength, IsAlwaysTheSame) {
  FixedDraftLength policy(3);
  EXPECT_EQ(policy.draft_length(decode_load(1)), 3U);
  EXPECT_EQ(policy.draft_length(decode_load(500)), 3U);
}

TEST(AdaptiveDraftLength, StartsOffAndTriesOneStepInAHundred) {
  AdaptiveDraftLength policy(3, step_time());
  const auto lengths = decode(policy, 1, 0.0, 1'000);
  EXPECT_EQ(with_drafts(lengths), 10U);
  EXPECT_EQ(lengths[99], 3U);
  EXPECT_FALSE(policy.is_on());
}

TEST(AdaptiveDraftLength, SwitchesOnForAGoodDrafterAtASmallBatch) {
  AdaptiveDraftLength policy(5, step_time());
  const auto lengths = decode(policy, 8, 0.8, 2'000);
  EXPECT_TRUE(policy.is_on());
  EXPECT_GT(with_drafts(lengths), 1'000U);
  EXPECT_GE(lengths.back(), 3U);
  EXPECT_NEAR(policy.acceptance(0), 0.8, 0.05);
  EXPECT_LT(policy.acceptance(0), 0.8 + 0.01);  // a lower bound
}

TEST(AdaptiveDraftLength, DraftsLessForALargeBatch) {
  AdaptiveDraftLength small(5, step_time());
  AdaptiveDraftLength large(5, step_time());
  const std::uint32_t few = decode(small, 4, 0.7, 3'000).back();
  const std::uint32_t many = decode(large, 128, 0.7, 3'000).back();
  EXPECT_GT(few, many);
}

TEST(AdaptiveDraftLength, GivesUpOnADrafterThatDoesNotWork) {
  AdaptiveDraftLength policy(3, step_time());
  // The published EAGLE-3 experiment: nearly nothing is accepted. 32 probes of 32 sequences prove it.
  const auto lengths = decode(policy, 32, 0.02, 10'000);
  EXPECT_TRUE(policy.gave_up());
  EXPECT_EQ(with_drafts(lengths), 32U);
  EXPECT_LE(with_drafts(lengths), lengths.size() / 100);
}

TEST(AdaptiveDraftLength, SwitchesOffWhenTheTextsChange) {
  AdaptiveDraftLength policy(4, step_time());
  decode(policy, 128, 0.8, 2'000);
  ASSERT_TRUE(policy.is_on());
  decode(policy, 128, 0.1, 3'000, 2);
  EXPECT_FALSE(policy.is_on());
  EXPECT_FALSE(policy.gave_up());
  decode(policy, 128, 0.8, 20'000, 3);  // one step in a hundred is enough to see it
  EXPECT_TRUE(policy.is_on());
}

TEST(AdaptiveDraftLength, AcceptanceOfAPositionNotTriedYetIsThatOfTheOneBefore) {
  AdaptiveDraftLength policy(5, step_time());
  EXPECT_EQ(policy.acceptance(0), 0.0);
  for (int i = 0; i < 100; ++i) policy.on_verified(2, 1);
  EXPECT_GT(policy.acceptance(0), 0.95);
  EXPECT_LT(policy.acceptance(1), 0.05);
  EXPECT_EQ(policy.acceptance(2), policy.acceptance(1));
}

TEST(MakeSpeculationPolicy, FollowsTheSettings) {
  spec::SpeculationSpec spec;
  EXPECT_EQ(make_speculation_policy(spec, step_time()), nullptr);
  spec.enabled = true;
  spec.draft_tokens = 4;
  const auto fixed = make_speculation_policy(spec, step_time());
  ASSERT_NE(fixed, nullptr);
  EXPECT_EQ(fixed->draft_length(decode_load(1)), 4U);
  spec.draft_length = spec::DraftLength::kAdaptive;
  const auto adaptive = make_speculation_policy(spec, step_time());
  ASSERT_NE(adaptive, nullptr);
  EXPECT_EQ(adaptive->draft_length(decode_load(1)), 0U);
}

}  // namespace
}  // namespace kvist::engine::speculation_test
