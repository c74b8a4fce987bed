// The index against a model that is obviously correct, under random histories of several workers.
#include <gtest/gtest.h>

#include "kv_index/kv_index_model.h"

namespace kvist::kv_index::kv_index_property_test {
namespace {

void compare_prompt(IndexHistory& history) {
  const std::size_t node = history.random_node();
  const auto path = history.tree().path(node);
  const auto keys = history.tree().keys(node);
  std::vector<WorkerMatch> expected;
  for (std::uint32_t worker = 0; worker < history.options().workers; ++worker) {
    if (const std::uint32_t depth = history.depth(worker, path); depth > 0) {
      expected.push_back({.worker = WorkerId(worker), .blocks = depth});
    }
  }
  const auto matches = history.index().match(keys);
  ASSERT_EQ(std::vector(matches.begin(), matches.end()), expected);
  std::vector<std::uint32_t> depths(history.options().workers);
  history.index().match(keys, depths);
  for (std::uint32_t worker = 0; worker < depths.size(); ++worker) {
    ASSERT_EQ(depths[worker], history.depth(worker, path)) << "worker " << worker;
  }
}

void compare_sizes(IndexHistory& history) {
  for (std::uint32_t worker = 0; worker < history.options().workers; ++worker) {
    ASSERT_EQ(history.index().worker_blocks(WorkerId(worker)), history.names(worker)) << "worker " << worker;
  }
  ASSERT_EQ(history.index().keys(), history.distinct());
}

void run(std::uint64_t seed, const HistoryOptions& options, int steps, int steps_per_size) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  IndexHistory history(seed, options);
  const std::size_t bytes_before = history.index().bytes();
  for (int i = 0; i < steps; ++i) {
    history.step();
    ASSERT_NO_FATAL_FAILURE(compare_prompt(history));
    if (i % steps_per_size == 0) {
      ASSERT_NO_FATAL_FAILURE(compare_sizes(history));
    }
  }
  history.remove_everything();
  ASSERT_NO_FATAL_FAILURE(compare_sizes(history));
  ASSERT_EQ(history.index().keys(), 0U) << "keys stay behind when every block is removed";
  ASSERT_LT(history.index().bytes(), bytes_before + 20'000 + options.workers * 1'200U) << "memory stays behind";
}

TEST(KvIndexProperty, EqualsANaiveModelOverRandomHistories) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    ASSERT_NO_FATAL_FAILURE(run(seed, {.workers = 5, .nodes = 60}, 400, 1));
  }
}

TEST(KvIndexProperty, HoldsForTablesOfManySegments) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    ASSERT_NO_FATAL_FAILURE(run(seed, {.workers = 3, .nodes = 6'000, .removals = 0.3, .clears = 0.001}, 3'000, 100));
  }
}

TEST(KvIndexProperty, HoldsForManyWorkersThatShareNames) {
  ASSERT_NO_FATAL_FAILURE(
      run(1, {.workers = 300, .nodes = 200, .copies = false, .shared_names = true, .removals = 0.3}, 3'000, 100));
  ASSERT_NO_FATAL_FAILURE(run(2, {.workers = 700, .nodes = 40, .clears = 0.01}, 3'000, 100));
}

TEST(KvIndexProperty, HoldsForNamesThatAreKeys) {
  const HistoryOptions options{.shared_names = true, .names_alone = true};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) ASSERT_NO_FATAL_FAILURE(run(seed, options, 400, 1));
  ASSERT_NO_FATAL_FAILURE(
      run(11, {.workers = 3, .nodes = 6'000, .shared_names = true, .names_alone = true, .removals = 0.3}, 3'000, 100));
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_property_test
