#include "kvist/routing/wait_or_commit.h"

#include <gtest/gtest.h>

namespace kvist::routing {
namespace {

/// A worker with `slots` slots, so many of its requests queued, one slot due each `gap_ms`.
Candidate worker(std::uint32_t slots, std::uint32_t queued, double gap_ms, double after_slot_ms = 100) {
  Candidate candidate;
  candidate.limits.max_batch_size = slots;
  candidate.load.requests = slots + queued;
  candidate.forecast.has_slot = false;
  candidate.forecast.slot_wait_ms = (queued + 1) * gap_ms;
  candidate.forecast.ttft_ms = candidate.forecast.slot_wait_ms + after_slot_ms;
  return candidate;
}

constexpr WaitOptions kNoMargin{.hand_over_ms = 0, .margin = 0};

TEST(WaitOrCommit, ThreeQueuesBecomeOne) {
  const std::vector<Candidate> fleet(3, worker(64, 0, 300));
  const WaitOrCommit first = wait_or_commit(fleet, 0, 0, kNoMargin);
  EXPECT_DOUBLE_EQ(first.commit_ms, 400);
  EXPECT_DOUBLE_EQ(first.wait_ms, 100 + 100) << "three slots in 300 ms: the first in 100";
  EXPECT_TRUE(first.wait);
  const WaitOrCommit fourth = wait_or_commit(fleet, 0, 3, kNoMargin);
  EXPECT_DOUBLE_EQ(fourth.wait_ms, 400 + 100);
  EXPECT_FALSE(fourth.wait) << "three are before it here, none at the worker";
}

TEST(WaitOrCommit, SlotsGoFirstToThoseThatQueueAtTheWorker) {
  const std::vector<Candidate> fleet{worker(4, 2, 100), worker(4, 0, 100)};
  // The second serves at once: 100 ms; from 200 ms on both do.
  EXPECT_DOUBLE_EQ(wait_or_commit(fleet, 1, 0, kNoMargin).wait_ms, 100 + 100);
  EXPECT_DOUBLE_EQ(wait_or_commit(fleet, 1, 1, kNoMargin).wait_ms, 200 + 100);
  EXPECT_DOUBLE_EQ(wait_or_commit(fleet, 1, 3, kNoMargin).wait_ms, 300 + 100);
}

TEST(WaitOrCommit, TheHandOverAndTheMarginHaveToBeWon) {
  const std::vector<Candidate> fleet(3, worker(64, 0, 300));
  EXPECT_TRUE(wait_or_commit(fleet, 0, 0, {.hand_over_ms = 100, .margin = 0.2}).wait);   // 300 against 320
  EXPECT_FALSE(wait_or_commit(fleet, 0, 0, {.hand_over_ms = 130, .margin = 0.2}).wait);  // 330
  EXPECT_FALSE(wait_or_commit(fleet, 0, 0, {.hand_over_ms = 100, .margin = 0.3}).wait);
}

TEST(WaitOrCommit, OneWorkerIsNeverWaitedFor) {
  for (const std::uint32_t queued : {0U, 1U, 20U}) {
    const std::vector<Candidate> fleet{worker(8, queued, 250)};
    EXPECT_FALSE(wait_or_commit(fleet, 0, 0, {}).wait);
  }
}

TEST(WaitOrCommit, NobodyWaitsWhileASlotIsFreeOrSlotsAreUnknown) {
  std::vector<Candidate> fleet(3, worker(64, 0, 300));
  fleet[2].forecast.has_slot = true;
  EXPECT_FALSE(wait_or_commit(fleet, 0, 0, kNoMargin).wait);
  fleet[2] = worker(64, 0, 300);
  fleet[1].limits.max_batch_size = 0;
  EXPECT_FALSE(wait_or_commit(fleet, 0, 0, kNoMargin).wait);
}

TEST(WaitOrCommit, AWorkerWithADeepCacheIsWorthItsQueue) {
  std::vector<Candidate> fleet(3, worker(64, 0, 300, 900));
  fleet[0].forecast.ttft_ms = fleet[0].forecast.slot_wait_ms + 50;
  EXPECT_FALSE(wait_or_commit(fleet, 0, 0, {}).wait);
}

}  // namespace
}  // namespace kvist::routing
