// A batch of events does what its events do one by one, whatever they mean to each other.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index::kv_index_batch_test {
namespace {

constexpr std::uint32_t kBlockSize = 2;
constexpr std::uint32_t kWorkers = 3;

/// Events over so few names that they meet: parents that the same batch stores, removes or clears, names that come back
/// with other tokens, and everything that an index refuses.
class RandomEvents {
 public:
  RandomEvents(std::uint64_t seed, std::int64_t names, double removals = 0.5, double parents = 0.7)
      : random_(seed), names_(names), removals_(removals), parents_(parents) {}

  [[nodiscard]] std::vector<kv::KvEvent> batch() {
    std::vector<kv::KvEvent> events;
    const std::int64_t count = chance(0.1) ? 200 : random_.uniform_int(0, 30);
    for (std::int64_t i = 0; i < count; ++i) events.push_back(event());
    return events;
  }

 private:
  [[nodiscard]] bool chance(double p) { return random_.uniform() < p; }
  [[nodiscard]] std::uint64_t name() { return static_cast<std::uint64_t>(random_.uniform_int(1, names_)); }

  [[nodiscard]] kv::KvEvent event() {
    if (chance(0.002)) return kv::AllBlocksCleared{};
    if (chance(removals_)) return removed();
    return stored();
  }
  [[nodiscard]] kv::BlockRemoved removed() {
    kv::BlockRemoved event;
    for (std::int64_t i = random_.uniform_int(0, 6); i > 0; --i) event.hashes.emplace_back(name());
    if (chance(0.02)) event.medium = kv::Medium::kHost;
    if (chance(0.02)) event.group = 1;
    return event;
  }
  // A name nearly always stands for one block, the one with its number.
  [[nodiscard]] kv::BlockStored stored() {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    std::uint64_t first = name();
    if (chance(parents_)) event.parent = kv::ExternalHash(first++);
    const std::int64_t blocks = chance(0.05) ? random_.uniform_int(60, 200) : random_.uniform_int(0, 5);
    for (std::int64_t i = 0; i < blocks; ++i, ++first) {
      event.hashes.emplace_back(first);
      const auto token = static_cast<std::uint32_t>(chance(0.01) ? random_.next() : first);
      for (std::uint32_t t = 0; t < kBlockSize; ++t) event.tokens.emplace_back(token);
    }
    if (chance(0.02)) event.tokens.emplace_back(1U);
    if (chance(0.02)) event.block_size = 7;
    if (chance(0.02)) event.other_extra_keys = true;
    if (chance(0.02)) event.group = 2;
    if (chance(0.02)) event.lora_name = "adapter";
    if (chance(0.02)) event.cache_salt = "salt";
    return event;
  }

  RandomStream random_;
  std::int64_t names_;
  double removals_;
  double parents_;
};

void expect_equal(const KvIndex& batched, const KvIndex& single, std::uint32_t worker) {
  const KvIndexCounters& a = batched.counters(WorkerId(worker));
  const KvIndexCounters& b = single.counters(WorkerId(worker));
  ASSERT_EQ(batched.worker_blocks(WorkerId(worker)), single.worker_blocks(WorkerId(worker)));
  ASSERT_EQ(batched.keys(), single.keys());
  ASSERT_EQ(a.stored_blocks, b.stored_blocks);
  ASSERT_EQ(a.removed_blocks, b.removed_blocks);
  ASSERT_EQ(a.unknown_removals, b.unknown_removals);
  ASSERT_EQ(a.clears, b.clears);
  ASSERT_EQ(a.refused, b.refused);
}

void expect_equal_matches(const KvIndex& batched, const KvIndex& single, std::int64_t names) {
  for (std::uint32_t start = 1; start <= static_cast<std::uint32_t>(names); start += 3) {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < 40 * kBlockSize; ++i) tokens.emplace_back(start + i / kBlockSize);
    const auto keys =
        kv::hash_blocks(kv::root_hash({.model = "model", .lora = "", .cache_salt = ""}), tokens, kBlockSize);
    const auto a = batched.match(keys);
    const auto b = single.match(keys);
    ASSERT_EQ(std::vector(a.begin(), a.end()), std::vector(b.begin(), b.end())) << "from block " << start;
  }
}

void run(std::uint64_t seed, std::int64_t names, std::size_t max_blocks) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const KvIndex::Options options{.model = "model",
                                 .block_size = kBlockSize,
                                 .max_blocks_per_worker = max_blocks,
                                 .max_bytes = std::size_t{1} << 30};
  KvIndex batched(options);
  KvIndex single(options);
  RandomEvents random(seed, names);
  std::uint64_t stored = 0;
  for (int round = 0; round < 120; ++round) {
    const auto worker = static_cast<std::uint32_t>(round) % kWorkers;
    const std::vector<kv::KvEvent> events = random.batch();
    std::size_t refused = 0;
    for (const kv::KvEvent& event : events) refused += single.apply(WorkerId(worker), event) ? 1 : 0;
    ASSERT_EQ(batched.apply(WorkerId(worker), events), refused);
    ASSERT_NO_FATAL_FAILURE(expect_equal(batched, single, worker));
    stored += events.empty() ? 0 : batched.counters(WorkerId(worker)).stored_blocks;
  }
  ASSERT_GT(stored, 0U);
  ASSERT_NO_FATAL_FAILURE(expect_equal_matches(batched, single, names));
}

TEST(KvIndexBatch, EqualsItsEventsOneByOne) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) ASSERT_NO_FATAL_FAILURE(run(seed, 40, 1'000'000));
  for (std::uint64_t seed = 41; seed <= 60; ++seed) ASSERT_NO_FATAL_FAILURE(run(seed, 5'000, 1'000'000));
}

TEST(KvIndexBatch, EqualsItsEventsOneByOneAtTheLimitOfBlocks) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) ASSERT_NO_FATAL_FAILURE(run(seed, 300, 100));
}

// Blocks are evicted between the events of a batch and between its removals: an evicted block is no parent any more.
TEST(KvIndexBatch, StaysWithinItsBytes) {
  constexpr std::size_t kMaxBytes = 600'000;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    KvIndex index({.model = "model", .block_size = kBlockSize, .max_bytes = kMaxBytes});
    RandomEvents random(seed, 60'000, /*removals=*/0.1, /*parents=*/0.2);
    for (int round = 0; round < 900; ++round) {
      index.apply(WorkerId(static_cast<std::uint32_t>(round) % kWorkers), random.batch());
      ASSERT_LE(index.bytes(), kMaxBytes);
    }
    ASSERT_GT(index.evictions(), 0U);
  }
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_batch_test
