#include "kvist/routing/load_tracker.h"

#include <gtest/gtest.h>

namespace kvist::routing {
namespace {

BlockKeys keys(std::initializer_list<std::uint64_t> values) {
  std::vector<kv::BlockHash> result;
  for (const std::uint64_t value : values) result.emplace_back(value);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(result));
}

TEST(LoadTracker, PrefillCountsUntilTheFirstToken) {
  LoadTracker tracker(2);
  const WorkerId w(1);
  tracker.add(RequestId(1), w, 500, nullptr);
  tracker.add(RequestId(2), w, 70, nullptr);
  EXPECT_EQ(tracker.load(w).prefill_tokens, 570U);
  tracker.on_first_token(RequestId(1));
  tracker.on_first_token(RequestId(1));
  EXPECT_EQ(tracker.load(w).prefill_tokens, 70U);
  tracker.remove(RequestId(2));
  EXPECT_EQ(tracker.load(w).prefill_tokens, 0U);
  EXPECT_EQ(tracker.load(w).requests, 1U);
  EXPECT_EQ(tracker.load(WorkerId(0)), WorkerLoad{});
}

TEST(LoadTracker, SharedPromptBlocksCountOnce) {
  LoadTracker tracker(1);
  const WorkerId w(0);
  tracker.add(RequestId(1), w, 0, keys({1, 2, 3}));
  tracker.add(RequestId(2), w, 0, keys({1, 2, 8, 9}));
  EXPECT_EQ(tracker.load(w).prompt_blocks, 5U);
  EXPECT_EQ(tracker.shared_blocks(w, view(keys({1, 2, 3, 4}))), 3U);
  EXPECT_EQ(tracker.shared_blocks(w, view(keys({7}))), 0U);
  tracker.remove(RequestId(1));
  EXPECT_EQ(tracker.load(w).prompt_blocks, 4U);
  EXPECT_EQ(tracker.shared_blocks(w, view(keys({1, 2, 3, 4}))), 2U);
}

TEST(LoadTracker, NothingInFlightIsNoLoad) {
  LoadTracker tracker(1);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    tracker.add(RequestId(i), WorkerId(0), i * 10, keys({1, i}));
    tracker.on_progress(RequestId(i), i);
    if (i % 2 == 0) tracker.on_first_token(RequestId(i));
  }
  EXPECT_EQ(tracker.load(WorkerId(0)).output_tokens, 55U);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    tracker.remove(RequestId(i));
    tracker.remove(RequestId(i));
  }
  EXPECT_EQ(tracker.load(WorkerId(0)), WorkerLoad{});
  EXPECT_EQ(tracker.requests(), 0U);
  tracker.on_progress(RequestId(3), 1);
  EXPECT_EQ(tracker.load(WorkerId(0)), WorkerLoad{});
}

}  // namespace
}  // namespace kvist::routing
