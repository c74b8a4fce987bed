#include "kvist/routing/load_tracker.h"

#include <gtest/gtest.h>

namespace kvist::routing::load_tracker_test {
namespace {

BlockKeys keys(std::initializer_list<std::uint64_t> values) {
  std::vector<kv::BlockHash> result;
  for (const std::uint64_t value : values) result.emplace_back(value);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(result));
}

RoutedRequest request(WorkerId worker, std::uint32_t uncached_tokens, BlockKeys blocks = nullptr) {
  return {.id = {},
          .worker = worker,
          .prompt_tokens = 600,
          .uncached_tokens = uncached_tokens,
          .blocks = std::move(blocks)};
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
  RoutedRequest first = request(w, 500);
  const RoutedRequest second = request(w, 70);
  tracker.add(first);
  tracker.add(second);
  EXPECT_EQ(tracker.load(w).prefill_tokens, 570U);
  tracker.on_first_token(first);
  tracker.on_first_token(first);
  EXPECT_EQ(tracker.load(w).prefill_tokens, 70U);
  tracker.remove(second);
  EXPECT_EQ(tracker.load(w).prefill_tokens, 0U);
  EXPECT_EQ(tracker.load(w).requests, 1U);
  EXPECT_EQ(tracker.load(WorkerId(0)), WorkerLoad{});
}

TEST(LoadTracker, SharedPromptBlocksCountOnce) {
  LoadTracker tracker(1);
  const WorkerId w(0);
  const RoutedRequest first = request(w, 0, keys({1, 2, 3}));
  tracker.add(first);
  tracker.add(request(w, 0, keys({1, 2, 8, 9})));
  EXPECT_EQ(tracker.load(w).prompt_blocks, 5U);
  EXPECT_EQ(shared(tracker, 1, {1, 2, 3, 4}), std::vector<std::uint32_t>{3});
  EXPECT_EQ(shared(tracker, 1, {7}), std::vector<std::uint32_t>{0});
  tracker.remove(first);
  EXPECT_EQ(tracker.load(w).prompt_blocks, 4U);
  EXPECT_EQ(shared(tracker, 1, {1, 2, 3, 4}), std::vector<std::uint32_t>{2});
}

TEST(LoadTracker, BlocksInUseAreCountedPerWorker) {
  LoadTracker tracker(3);
  const RoutedRequest twice = request(WorkerId(2), 0, keys({1, 2}));
  tracker.add(request(WorkerId(0), 0, keys({1, 2, 3})));
  tracker.add(twice);
  tracker.add(twice);
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 2}));
  tracker.remove(twice);
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 2}));
  tracker.remove(twice);
  EXPECT_EQ(shared(tracker, 3, {1, 2, 3, 4}), (std::vector<std::uint32_t>{3, 0, 0}));
}

TEST(LoadTracker, NothingInFlightIsNoLoad) {
  LoadTracker tracker(1);
  std::vector<RoutedRequest> requests;
  for (std::uint32_t i = 1; i <= 10; ++i) {
    RoutedRequest& added = requests.emplace_back(request(WorkerId(0), i * 10, keys({1, i})));
    tracker.add(added);
    tracker.on_progress(added, i);
    if (i % 2 == 0) tracker.on_first_token(added);
  }
  EXPECT_EQ(tracker.load(WorkerId(0)).output_tokens, 55U);
  for (const RoutedRequest& added : requests) tracker.remove(added);
  EXPECT_EQ(tracker.load(WorkerId(0)), WorkerLoad{});
  EXPECT_EQ(tracker.requests(), 0U);
}

}  // namespace
}  // namespace kvist::routing::load_tracker_test
