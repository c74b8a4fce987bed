#include "kvist/routing/load_tracker.h"

#include <gtest/gtest.h>

namespace kvist::routing {
namespace {

BlockKeys keys(std::initializer_list<std::uint64_t> values) {
  std::vector<kv::BlockHash> result;
  for (const std::uint64_t value : values) result.emplace_back(value);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(result));
}

// Per worker, how many leading blocks are in use.
std::vector<std::uint32_t> shared(const LoadTracker& tracker, std::size_t workers,
                                  std::initializer_list<std::uint64_t> blocks) {
  std::vector<std::uint32_t> depths(workers);
  tracker.shared_blocks(view(keys(blocks)), depths);
  return depths;
}

TEST(LoadTracker, PrefillCountsUntilTheFirstToken) {
  LoadTracker tracker(2);
  const WorkerId w(1);
  tracker.add(RequestId(1), w, {.prompt_tokens = 600, .uncached_tokens = 500});
  tracker.add(RequestId(2), w, {.prompt_tokens = 600, .uncached_tokens = 70});
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
  tracker.add(RequestId(1), w, {.prompt_tokens = 600, .uncached_tokens = 0, .blocks = keys({1, 2, 3})});
  tracker.add(RequestId(2), w, {.prompt_tokens = 600, .uncached_tokens = 0, .blocks = keys({1, 2, 8, 9})});
  EXPECT_EQ(tracker.load(w).prompt_blocks, 5U);
  EXPECT_EQ(shared(tracker, 1, {1, 2, 3, 4}), std::vector<std::uint32_t>{3});
  EXPECT_EQ(shared(tracker, 1, {7}), std::vector<std::uint32_t>{0});
  tracker.remove(RequestId(1));
  EXPECT_EQ(tracker.load(w).prompt_blocks, 4U);
  EXPECT_EQ(shared(tracker, 1, {1, 2, 3, 4}), std::vector<std::uint32_t>{2});
}

TEST(LoadTracker, BlocksInUseAreToldPerWorker) {
  LoadTracker tracker(3);
  tracker.add(RequestId(1), WorkerId(0), {.prompt_tokens = 600, .uncached_tokens = 0, .blocks = keys({1, 2, 3})});
  tracker.add(RequestId(2), WorkerId(2), {.prompt_tokens = 600, .uncached_tokens = 0, .blocks = keys({1, 2})});
  tracker.add(RequestId(3), WorkerId(2), {.prompt_tokens = 600, .uncached_tokens = 0, .blocks = keys({1, 2})});
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 2}));
  tracker.remove(RequestId(2));
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 2}));
  tracker.remove(RequestId(3));
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 0}));
}

TEST(LoadTracker, NothingInFlightIsNoLoad) {
  LoadTracker tracker(1);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    tracker.add(RequestId(i), WorkerId(0),
                {.prompt_tokens = 600, .uncached_tokens = static_cast<std::uint32_t>(i * 10), .blocks = keys({1, i})});
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
