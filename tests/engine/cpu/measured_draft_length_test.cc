#include "kvist/engine/cpu/measured_draft_length.h"

#include <gtest/gtest.h>

namespace kvist::engine::cpu::measured_draft_length_test {
namespace {

perfmodel::StepLoad decoding(std::uint64_t sequences) {
  return {.sequences = sequences, .decode_sequences = sequences};
}

// Steps of 8 ms and 1 ms per row.
void teach_times(MeasuredDraftLength& policy) {
  for (const std::uint64_t rows : {1, 2, 4, 8, 16, 3, 1})
    policy.on_step(rows, std::chrono::milliseconds(8 + static_cast<int>(rows)));
}

TEST(MeasuredDraftLength, ALoneSequenceDraftsWhileDraftsAreRight) {
  MeasuredDraftLength policy(8);
  teach_times(policy);
  for (int i = 0; i < 300; ++i) policy.on_verified(8, 8);
  EXPECT_EQ(policy.draft_length(decoding(1)), 8U);
}

TEST(MeasuredDraftLength, AFullBatchDraftsNothing) {
  MeasuredDraftLength policy(8);
  teach_times(policy);
  for (int i = 0; i < 300; ++i) policy.on_verified(8, 4);
  const std::uint32_t lone = policy.draft_length(decoding(1));
  EXPECT_GE(lone, 3U);
  EXPECT_LT(lone, 8U) << "the fifth is never right";
  EXPECT_LT(policy.draft_length(decoding(32)), lone);
  for (int i = 0; i < 3'000; ++i) policy.on_verified(8, i % 3 == 0 ? 1 : 0);
  EXPECT_EQ(policy.draft_length(decoding(32)), 0U);
}

TEST(MeasuredDraftLength, DraftsThatAreNeverRightEndButForProbes) {
  MeasuredDraftLength policy(4);
  teach_times(policy);
  for (int i = 0; i < 5'000; ++i) policy.on_verified(4, 0);
  int drafted = 0;
  for (std::uint64_t i = 0; i < 10 * MeasuredDraftLength::kProbe; ++i) {
    const std::uint32_t length = policy.draft_length(decoding(1));
    EXPECT_LE(length, 1U);
    drafted += static_cast<int>(length);
  }
  EXPECT_EQ(drafted, 10);
  for (int i = 0; i < 5'000; ++i) policy.on_verified(1, 1);
  EXPECT_GE(policy.draft_length(decoding(1)), 1U) << "texts change";
}

TEST(MeasuredDraftLength, BeforeAnythingIsMeasuredALoneSequenceTries) {
  MeasuredDraftLength policy(4);
  EXPECT_GE(policy.draft_length(decoding(1)), 1U);
  EXPECT_EQ(MeasuredDraftLength(0).draft_length(decoding(1)), 0U);
}

}  // namespace
}  // namespace kvist::engine::cpu::measured_draft_length_test
