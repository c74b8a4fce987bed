// The pool against a naive model: random operations, every answer compared, and the events replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "kvist/base/random.h"
#include "kvist/kv/block_pool.h"

namespace kvist::kv::block_pool_property_test {
namespace {

constexpr std::uint32_t kBlocks = 24;
constexpr std::uint32_t kBlockSize = 2;
constexpr std::uint64_t kHashes = 12;  // few, so that copies are common

/// The pool's contract in its simplest form.
struct Model {
  struct Block {
    std::uint32_t references = 0;
    std::optional<std::uint64_t> hash;
    bool used = false;  // it was allocated at least once
  };
  std::vector<Block> blocks = std::vector<Block>(kBlocks);
  std::list<std::uint32_t> free;  // in the order in which they will be allocated
  std::uint64_t evictions = 0;

  Model() {
    for (std::uint32_t i = 0; i < kBlocks; ++i) free.push_back(i);
  }

  std::optional<std::uint32_t> allocate() {
    if (free.empty()) return std::nullopt;
    const std::uint32_t block = free.front();
    free.pop_front();
    if (blocks[block].hash) ++evictions;
    blocks[block] = {.references = 1, .hash = std::nullopt, .used = true};
    return block;
  }
  void acquire(std::uint32_t block) {
    if (blocks[block].references++ == 0) free.remove(block);
  }
  void release(std::uint32_t block) {
    if (--blocks[block].references > 0) return;
    if (blocks[block].hash)
      free.push_back(block);
    else
      free.push_front(block);
  }
  // Those that were never used come behind all that are not findable.
  void clear() {
    for (Block& block : blocks) block.hash.reset();
    std::list<std::uint32_t> unused;
    for (auto next = free.begin(); next != free.end();) {
      const auto block = next++;
      if (!blocks[*block].used) unused.splice(unused.end(), free, block);
    }
    free.splice(free.end(), unused);
  }
  [[nodiscard]] std::map<std::uint64_t, std::uint32_t> findable() const {
    std::map<std::uint64_t, std::uint32_t> copies;
    for (const Block& block : blocks)
      if (block.hash) ++copies[*block.hash];
    return copies;
  }
};

/// A subscriber that counts copies by block hash.
struct Subscriber {
  std::map<std::uint64_t, std::uint32_t> copies;

  void operator()(const BlockStored& event) {
    EXPECT_EQ(event.tokens.size(), event.hashes.size() * event.block_size);
    for (const ExternalHash hash : event.hashes) ++copies[hash.value()];
  }
  void operator()(const BlockRemoved& event) {
    for (const ExternalHash hash : event.hashes) {
      ASSERT_TRUE(copies.contains(hash.value())) << "removed before it was stored: " << hash.value();
      if (--copies[hash.value()] == 0) copies.erase(hash.value());
    }
  }
  void operator()(const AllBlocksCleared&) { copies.clear(); }
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed) {}

  void step() {
    const auto choice = random_.uniform_int(0, 99);
    if (choice < 35)
      allocate();
    else if (choice < 55)
      acquire();
    else if (choice < 85)
      release();
    else if (choice < 99)
      commit();
    else
      clear();
    compare();
  }

 private:
  /// A random block that fits, if any.
  template <class Fits>
  std::optional<std::uint32_t> pick(Fits fits) {
    std::vector<std::uint32_t> candidates;
    for (std::uint32_t i = 0; i < kBlocks; ++i)
      if (fits(model_.blocks[i])) candidates.push_back(i);
    if (candidates.empty()) return std::nullopt;
    return candidates[static_cast<std::size_t>(random_.uniform_int(0, std::int64_t(candidates.size()) - 1))];
  }

  void allocate() {
    const auto got = pool_.allocate();
    const auto want = model_.allocate();
    ASSERT_EQ(got.has_value(), want.has_value());
    if (got) {
      ASSERT_EQ(got->value(), *want) << "not the least valuable block";
    }
  }

  void acquire() {
    const BlockHash hash(static_cast<std::uint64_t>(random_.uniform_int(0, kHashes - 1)));
    const auto found = pool_.find(hash);
    if (!found) return;
    pool_.acquire(*found);
    model_.acquire(found->value());
  }

  void release() {
    const auto block = pick([](const Model::Block& b) { return b.references > 0; });
    if (!block) return;
    pool_.release(BlockId(*block));
    model_.release(*block);
  }

  void commit() {
    std::vector<BlockId> blocks;
    std::vector<BlockHash> hashes;
    const auto count = random_.uniform_int(1, 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto block = pick([](const Model::Block& b) { return b.references > 0 && !b.hash; });
      if (!block) break;
      const auto hash = static_cast<std::uint64_t>(random_.uniform_int(0, kHashes - 1));
      model_.blocks[*block].hash = hash;
      blocks.emplace_back(*block);
      hashes.emplace_back(hash);
    }
    const std::vector<TokenId> tokens(blocks.size() * kBlockSize, TokenId(1));
    pool_.commit(blocks, hashes, std::nullopt, tokens);
    stored_ += blocks.size();
  }

  void clear() {
    pool_.clear_hashes();
    model_.clear();
  }

  void compare() {
    ASSERT_EQ(pool_.free_blocks(), model_.free.size());
    ASSERT_EQ(pool_.used_blocks(), kBlocks - model_.free.size());
    ASSERT_EQ(pool_.counters().evictions, model_.evictions);
    ASSERT_EQ(pool_.counters().stored_blocks, stored_);
    for (std::uint32_t i = 0; i < kBlocks; ++i) ASSERT_EQ(pool_.references(BlockId(i)), model_.blocks[i].references);
    for (std::uint64_t hash = 0; hash < kHashes; ++hash) compare_find(hash);
    compare_find_prefix();

    const auto want = model_.findable();
    const auto findable = pool_.findable();
    std::map<std::uint64_t, std::uint32_t> got;
    for (const auto& [hash, copies] : findable) got[hash.value()] = copies;
    ASSERT_EQ(got, want);
    for (const KvEvent& event : pool_.take_events()) std::visit(subscriber_, event);
    ASSERT_EQ(subscriber_.copies, want) << "the events tell another story";
  }

  void compare_find(std::uint64_t hash) {
    const auto found = pool_.find(BlockHash(hash));
    const auto copy = [&](const Model::Block& b) { return b.hash == hash; };
    const auto used_copy = [&](const Model::Block& b) { return b.hash == hash && b.references > 0; };
    ASSERT_EQ(found.has_value(), std::any_of(model_.blocks.begin(), model_.blocks.end(), copy));
    if (!found) return;
    ASSERT_TRUE(copy(model_.blocks[found->value()]));
    if (std::any_of(model_.blocks.begin(), model_.blocks.end(), used_copy)) {
      ASSERT_TRUE(used_copy(model_.blocks[found->value()])) << "a copy in use comes first";
    }
  }

  void compare_find_prefix() {
    std::vector<BlockHash> hashes;
    for (std::int64_t i = random_.uniform_int(0, 30); i > 0; --i) {
      hashes.emplace_back(static_cast<std::uint64_t>(random_.uniform_int(0, kHashes - 1)));
    }
    std::vector<BlockId> want;
    for (const BlockHash hash : hashes) {
      const auto found = pool_.find(hash);
      if (!found) break;
      want.push_back(*found);
    }
    std::vector<BlockId> got = {BlockId(77)};
    pool_.find_prefix(hashes, got);
    ASSERT_EQ(got, want);
  }

  RandomStream random_;
  BlockPool pool_{kBlocks, kBlockSize};
  Model model_;
  Subscriber subscriber_;
  std::uint64_t stored_ = 0;
};

TEST(BlockPoolProperty, AgreesWithANaiveModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk walk(seed);
    for (int step = 0; step < 2'000 && !HasFatalFailure(); ++step) walk.step();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvist::kv::block_pool_property_test
