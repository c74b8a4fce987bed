// One worker's part of an index, put into another index: it is the same from there on.
#include "kvist/kv_index/kv_index_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index::kv_index_transfer_test {
namespace {

using kv::ExternalHash;
using kv::Medium;
using ::testing::IsEmpty;

constexpr std::uint32_t kBlockSize = 2;
constexpr std::array kMedia = {Medium::kDevice, Medium::kHost, Medium::kDisk, Medium::kRemote};

KvIndex make_index(std::size_t max_bytes = std::size_t{1} << 30) {
  return KvIndex({.model = "m", .block_size = kBlockSize, .max_bytes = max_bytes, .workers = 4});
}

struct Exported {
  std::vector<BlockPiece> pieces;
  std::uint32_t blocks = 0;
};

std::optional<Exported> export_of(const KvIndex& index, WorkerId worker) {
  KvIndex::Export job(index, worker);
  Exported all;
  while (true) {
    BlockPiece piece;
    const auto step = job.step(piece);
    if (step == KvIndex::Export::Step::kChanged) return std::nullopt;
    if (step == KvIndex::Export::Step::kDone) break;
    EXPECT_LE(piece.keys.size(), BlockPiece::kMostItems);
    EXPECT_LE(piece.runs.size(), BlockPiece::kMostItems);
    EXPECT_LE(piece.further.size(), BlockPiece::kMostItems);
    if (!piece.empty()) all.pieces.push_back(std::move(piece));
  }
  all.blocks = job.blocks();
  return all;
}

/// What pieces say, whatever their order: for each name the key of its block, that of the block before, and copies.
using Content = std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, int, std::uint32_t>>;
Content content_of(const std::vector<BlockPiece>& pieces) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks{{0, 0}};  // key and parent's key
  std::map<std::tuple<std::uint32_t, std::uint64_t, int>, std::uint32_t> copies;
  for (const BlockPiece& piece : pieces) {
    std::size_t at = 0;
    for (const BlockPiece::Run& run : piece.runs) {
      std::uint32_t parent = run.parent;
      for (std::uint32_t i = 0; i < run.blocks; ++i, ++at) {
        blocks.emplace_back(piece.keys[at].value(), blocks.at(parent).first);
        parent = static_cast<std::uint32_t>(blocks.size()) - 1;
        if (piece.names[at] != kNoName) ++copies[{parent, piece.names[at].value(), 0}];
      }
    }
    for (const auto& name : piece.further)
      copies[{name.block, name.name.value(), static_cast<int>(name.medium)}] += name.copies;
  }
  Content content;
  for (const auto& [name, count] : copies) {
    const auto& [block, hash, medium] = name;
    content.emplace(blocks.at(block).first, blocks.at(block).second, hash, medium, count);
  }
  return content;
}

[[nodiscard]] std::optional<Refusal> put(KvIndex& index, WorkerId worker, const std::vector<BlockPiece>& pieces) {
  KvIndex::Import job(index, worker);
  for (const BlockPiece& piece : pieces)
    if (const auto refused = job.add(piece)) return refused;
  return std::nullopt;
}

/// Random events of one worker, as an engine with several media and adapters sends them, and some that none would.
class RandomWorker {
 public:
  RandomWorker(std::uint64_t seed, std::uint64_t names) : random_(seed), names_(names) {
    for (int i = 0; i < 80; ++i) {
      const std::size_t parent = random_.uniform() < 0.85 && !nodes_.empty() ? nodes_.size() : pick() + 1;
      nodes_.push_back(random_.uniform() < 0.1 ? 0 : std::min(parent, nodes_.size()));
    }
  }

  kv::KvEvent next() {
    const double what = random_.uniform();
    if (what < 0.01) {
      held_.clear();
      return kv::AllBlocksCleared{};
    }
    if (what < 0.45 && !held_.empty()) return remove();
    return store();
  }

 private:
  struct Held {
    std::size_t node = 0;
    ExternalHash name = {};
    Medium medium = Medium::kDevice;
  };

  std::size_t pick() { return nodes_.empty() ? 0 : random_.next() % nodes_.size(); }
  Medium medium() { return kMedia[random_.uniform() < 0.7 ? 0 : random_.next() % kMedia.size()]; }
  ExternalHash name_of(std::size_t node) {
    const std::uint64_t variant = random_.uniform() < 0.2 ? random_.next() % 2 : 7;
    if (node == 3 && variant == 0) return ExternalHash(0);  // engines have that one too
    return ExternalHash(mix_seed({names_, node, variant}));
  }

  kv::KvEvent remove() {
    const std::size_t at = random_.next() % held_.size();
    const Held gone = held_[at];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
    return kv::BlockRemoved{.hashes = {gone.name}, .medium = gone.medium};
  }

  kv::KvEvent store() {
    // A run of some blocks that ends with a random node, behind its parent if that is held, or from its beginning on.
    std::vector<std::size_t> path;
    for (std::size_t node = pick() + 1; node != 0; node = nodes_[node - 1]) path.push_back(node);
    std::ranges::reverse(path);
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.medium = medium();
    const std::size_t from = random_.next() % path.size();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < from; ++i) {
      for (const Held& block : held_) {
        if (block.node != path[i]) continue;
        event.parent = block.name;
        begin = i + 1;
      }
    }
    // Prefixes whose first node has such a number are those of an adapter, so that one key has one tree.
    if (path.front() % 3 == 0) event.lora_name = "adapter";
    if (!event.parent && path.front() % 3 == 1) event.cache_salt = "salt";
    const bool names_only = random_.uniform() < 0.1 && !held_.empty();
    for (std::size_t i = begin; i < path.size(); ++i) {
      const auto token = static_cast<std::uint32_t>(path[i]);
      event.hashes.push_back(name_of(path[i]));
      held_.push_back({.node = path[i], .name = event.hashes.back(), .medium = event.medium});
      if (!names_only) event.tokens.insert(event.tokens.end(), {TokenId(token), TokenId(token + 1)});
    }
    return event;
  }

  RandomStream random_;
  std::uint64_t names_;
  std::vector<std::size_t> nodes_;  // by number - 1: the parent's number; 0: none
  std::vector<Held> held_;          // as far as the worker sent it; the index may have refused it
};

void expect_equal(const KvIndex& one, const KvIndex& other, std::uint32_t workers) {
  for (std::uint32_t i = 0; i < workers; ++i) {
    const auto a = export_of(one, WorkerId(i));
    const auto b = export_of(other, WorkerId(i));
    ASSERT_TRUE(a && b);
    ASSERT_EQ(content_of(a->pieces), content_of(b->pieces)) << "worker " << i;
    for (const Medium medium : kMedia)
      ASSERT_EQ(one.worker_blocks(WorkerId(i), medium), other.worker_blocks(WorkerId(i), medium))
          << "worker " << i << " in " << to_string(medium);
  }
  ASSERT_EQ(one.keys(), other.keys());
}

TEST(KvIndexTransferProperty, APartAndTheRestOfTheEventsAreTheWholeStream) {
  constexpr std::uint32_t kWorkers = 3;
  std::size_t moved = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    KvIndex here = make_index();
    KvIndex there = make_index();
    std::vector<RandomWorker> workers;
    // Workers with equal names and prefixes, and one with its own.
    for (std::uint64_t i = 0; i < kWorkers; ++i) workers.emplace_back(seed, std::min<std::uint64_t>(i, 1));
    const std::uint64_t cut = random.next() % 300;
    for (std::uint64_t i = 0; i < 400; ++i) {
      if (i == cut) {
        const auto part = export_of(here, WorkerId(0));
        ASSERT_TRUE(part);
        ASSERT_EQ(put(there, WorkerId(0), part->pieces), std::nullopt);
        ASSERT_NO_FATAL_FAILURE(expect_equal(here, there, kWorkers));
        moved += part->blocks;
      }
      const auto worker = static_cast<std::uint32_t>(random.next() % kWorkers);
      const kv::KvEvent event = workers[worker].next();
      const auto refused = here.apply(WorkerId(worker), event);
      if (worker == 0 && i < cut) continue;
      ASSERT_EQ(there.apply(WorkerId(worker), event), refused) << "event " << i;
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(here, there, kWorkers));
    for (std::uint32_t i = 0; i < kWorkers; ++i) there.clear(WorkerId(i));
    ASSERT_EQ(there.keys(), 0U) << "blocks stay behind";
  }
  EXPECT_GT(moved, 2'000U) << "the parts were not empty";
}

/// Prompts of one worker: `prompts` of them with `blocks` each, that share half.
void fill(KvIndex& index, WorkerId worker, std::uint32_t prompts, std::uint32_t blocks) {
  for (std::uint32_t prompt = 0; prompt < prompts; ++prompt) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      const std::uint32_t own = i < blocks / 2 ? prompt / 2 : 1'000'000 + prompt;
      event.hashes.emplace_back(mix_seed({worker.value(), own, i}));
      event.tokens.insert(event.tokens.end(), {TokenId(own), TokenId(i)});
    }
    ASSERT_EQ(index.apply(worker, event), std::nullopt);
  }
}

TEST(KvIndexTransferTest, LargePartsComeInBoundedPieces) {
  KvIndex here = make_index();
  fill(here, WorkerId(1), 100, 700);
  const auto part = export_of(here, WorkerId(1));
  ASSERT_TRUE(part);
  EXPECT_EQ(part->blocks, 100U * 350 + 50 * 350);
  EXPECT_GT(part->pieces.size(), 6U);
  KvIndex there = make_index();
  ASSERT_EQ(put(there, WorkerId(1), part->pieces), std::nullopt);
  expect_equal(here, there, 4);
}

TEST(KvIndexTransferTest, APartMayGetAnotherNumber) {
  KvIndex here = make_index();
  fill(here, WorkerId(1), 2, 10);
  KvIndex there = make_index();
  ASSERT_EQ(put(there, WorkerId(3), export_of(here, WorkerId(1))->pieces), std::nullopt);
  EXPECT_EQ(there.worker_blocks(WorkerId(3)), 15U);
  EXPECT_EQ(content_of(export_of(there, WorkerId(3))->pieces), content_of(export_of(here, WorkerId(1))->pieces));
}

TEST(KvIndexTransferTest, AnUnknownWorkerHasAnEmptyPart) {
  const KvIndex index = make_index();
  EXPECT_THAT(export_of(index, WorkerId(2))->pieces, IsEmpty());
}

TEST(KvIndexTransferTest, ChangesOfTheWorkerEndItAndThoseOfOthersDoNot) {
  KvIndex index = make_index();
  fill(index, WorkerId(0), 20, 900);
  fill(index, WorkerId(1), 2, 10);
  BlockPiece piece;
  KvIndex::Export other_changes(index, WorkerId(0));
  ASSERT_EQ(other_changes.step(piece), KvIndex::Export::Step::kGoesOn);
  index.clear(WorkerId(1));
  EXPECT_EQ(other_changes.step(piece), KvIndex::Export::Step::kGoesOn);
  const auto ends_by = [&](auto change) {
    KvIndex::Export job(index, WorkerId(0));
    EXPECT_EQ(job.step(piece), KvIndex::Export::Step::kGoesOn);
    change();
    return job.step(piece) == KvIndex::Export::Step::kChanged;
  };
  const ExternalHash first(mix_seed({0, 0, 0}));
  kv::BlockStored offloaded;
  offloaded.hashes = {first};
  offloaded.medium = Medium::kHost;
  EXPECT_TRUE(ends_by([&] { (void)index.apply(WorkerId(0), kv::BlockRemoved{.hashes = {first}}); }));
  EXPECT_TRUE(ends_by([&] { ASSERT_TRUE(index.adopt(WorkerId(0), std::vector{kv::BlockHash(5)}, ExternalHash(6))); }));
  EXPECT_TRUE(ends_by([&] { (void)index.apply(WorkerId(0), offloaded); }));
  EXPECT_TRUE(ends_by([&] { index.clear(WorkerId(0)); }));
}

TEST(KvIndexTransferTest, WhatIsEvictedMeanwhileEndsIt) {
  KvIndex index = make_index(1 << 20);
  fill(index, WorkerId(0), 8, 900);
  BlockPiece piece;
  KvIndex::Export job(index, WorkerId(0));
  ASSERT_EQ(job.step(piece), KvIndex::Export::Step::kGoesOn);
  for (std::uint32_t worker = 1; worker < 4 && index.evictions() == 0; ++worker) fill(index, WorkerId(worker), 20, 900);
  ASSERT_GT(index.evictions(), 0U);
  EXPECT_EQ(job.step(piece), KvIndex::Export::Step::kChanged);
}

TEST(KvIndexTransferTest, AdoptedPrefixesAreLeftOut) {
  KvIndex index = make_index();
  const std::vector<kv::BlockHash> prefix{kv::BlockHash(11), kv::BlockHash(12), kv::BlockHash(13)};
  ASSERT_TRUE(index.adopt(WorkerId(0), prefix, ExternalHash(99)));
  const auto part = export_of(index, WorkerId(0));
  const Content want{{13, 12, 99, 0, 1}};
  EXPECT_EQ(content_of(part->pieces), want) << "only the last block has a name of the worker's own";
  KvIndex there = make_index();
  ASSERT_EQ(put(there, WorkerId(0), part->pieces), std::nullopt);
  EXPECT_EQ(there.worker_blocks(WorkerId(0)), 1U);
  EXPECT_THAT(there.match(prefix), IsEmpty()) << "the blocks before it are held by nobody";
}

TEST(KvIndexTransferTest, HostilePiecesAreRefused) {
  const kv::BlockHash key(5);
  const ExternalHash name(6);
  const auto refusal = [](std::vector<BlockPiece> pieces) {
    KvIndex index = make_index();
    const auto refused = put(index, WorkerId(0), pieces);
    index.clear(WorkerId(0));
    EXPECT_EQ(index.keys(), 0U);
    return refused;
  };
  EXPECT_EQ(refusal({{.runs = {{.parent = 0, .blocks = 1}}, .keys = {key}, .names = {name}}}), std::nullopt);
  EXPECT_EQ(refusal({{.runs = {{.parent = 1, .blocks = 1}}, .keys = {key}, .names = {name}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({{.runs = {{.parent = 0, .blocks = 2}}, .keys = {key}, .names = {name}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({{.runs = {{.parent = 0, .blocks = 0}}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({{.keys = {key}, .names = {name}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({{.runs = {{.parent = 0, .blocks = 1}}, .keys = {key}, .names = {}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({{.further = {{.block = 1, .name = name}}}}), Refusal::kMalformed);
  const BlockPiece sound{.runs = {{.parent = 0, .blocks = 1}}, .keys = {key}, .names = {name}};
  EXPECT_EQ(refusal({sound, {.further = {{.block = 0, .name = name}}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({sound, {.further = {{.block = 1, .name = name, .copies = 0}}}}), Refusal::kMalformed);
  EXPECT_EQ(refusal({sound, {.further = {{.block = 1, .name = name, .medium = static_cast<Medium>(9)}}}}),
            Refusal::kMalformed);
  // One name for two blocks.
  const BlockPiece same_name{.runs = {{.parent = 0, .blocks = 1}}, .keys = {kv::BlockHash(7)}, .names = {name}};
  EXPECT_EQ(refusal({sound, same_name}), Refusal::kConflict);
  // One key at two places, which no hash makes: it is refused or not, but does no harm.
  (void)refusal({sound, {.runs = {{.parent = 1, .blocks = 1}}, .keys = {key}, .names = {ExternalHash(8)}}});
  (void)refusal({{.runs = {{.parent = 0, .blocks = 3}},
                  .keys = {key, kv::BlockHash(7), key},
                  .names = {kNoName, kNoName, kNoName}}});
}

TEST(KvIndexTransferTest, MoreThanAWorkerMayHaveIsRefused) {
  KvIndex here = make_index();
  fill(here, WorkerId(0), 2, 100);
  KvIndex there({.model = "m", .block_size = kBlockSize, .max_blocks_per_worker = 120});
  EXPECT_EQ(put(there, WorkerId(0), export_of(here, WorkerId(0))->pieces), Refusal::kCapacity);
}

TEST(KvIndexTransferTest, APartThatDoesNotFitLosesTheEndsOfItsPrefixesOnly) {
  KvIndex here = make_index();
  fill(here, WorkerId(0), 40, 900);
  const auto part = export_of(here, WorkerId(0));
  KvIndex there = make_index(1 << 20);
  const auto refused = put(there, WorkerId(0), part->pieces);
  ASSERT_TRUE(!refused || refused == Refusal::kCapacity);
  EXPECT_LE(there.bytes(), std::size_t{1} << 20);
  EXPECT_GT(there.evictions(), 0U);
  const Content whole = content_of(part->pieces);
  for (const auto& block : content_of(export_of(there, WorkerId(0))->pieces)) EXPECT_TRUE(whole.contains(block));
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_transfer_test
