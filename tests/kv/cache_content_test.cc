// What many events left behind, said in few: a subscriber that reads those sees what one sees that read all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kvist/kv/cache_content.h"

namespace kvist::kv::cache_content_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;

/// A subscriber as strict as can be: a block is stored only where its parent's place in the prompt is known.
struct Subscriber {
  struct Place {
    std::vector<TokenId> prompt;  // all tokens up to and with the block
    std::string salt;             // of the prompt
    std::string lora;
    bool other = false;
    bool operator==(const Place&) const = default;
  };
  std::map<std::uint64_t, Place> places;  // of all blocks that were ever stored, since the last clearing
  std::map<std::uint64_t, int> copies;
  std::map<std::uint64_t, Place> cached() const {
    std::map<std::uint64_t, Place> found;
    for (const auto& [hash, count] : copies) found[hash] = places.at(hash);
    return found;
  }

  void apply(const std::vector<KvEvent>& events) {
    for (const KvEvent& event : events) std::visit([this](const auto& e) { take(e); }, event);
  }
  void take(const BlockStored& stored) {
    Place place{.prompt = {}, .salt = stored.cache_salt, .lora = stored.lora_name, .other = stored.other_extra_keys};
    if (stored.parent) {
      ASSERT_TRUE(places.contains(stored.parent->value())) << "its parent is unknown";
      place.prompt = places[stored.parent->value()].prompt;
      place.salt = places[stored.parent->value()].salt;
    }
    ASSERT_EQ(stored.tokens.size(), stored.hashes.size() * kBlockSize);
    for (std::size_t i = 0; i < stored.hashes.size(); ++i) {
      place.prompt.insert(place.prompt.end(), stored.tokens.begin() + static_cast<std::ptrdiff_t>(i * kBlockSize),
                          stored.tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockSize));
      places[stored.hashes[i].value()] = place;
      ++copies[stored.hashes[i].value()];
    }
  }
  void take(const BlockRemoved& removed) {
    for (const ExternalHash hash : removed.hashes) {
      ASSERT_TRUE(copies.contains(hash.value()));
      if (--copies[hash.value()] == 0) copies.erase(hash.value());
    }
  }
  void take(const AllBlocksCleared& /*cleared*/) {
    places.clear();
    copies.clear();
  }
};

/// Random prompts that share beginnings, evicted in any order, parents too.
class Worker {
 public:
  explicit Worker(std::uint64_t seed) : random_(seed) {}

  std::vector<KvEvent> step() {
    std::vector<KvEvent> events;
    if (below(200) == 0) {
      truth_ = {};
      events.emplace_back(AllBlocksCleared{});
    }
    for (std::uint64_t i = below(4); i > 0; --i) store(events);
    for (std::uint64_t i = below(6); i > 0 && !truth_.copies.empty(); --i) remove(events);
    return events;
  }
  [[nodiscard]] const Subscriber& truth() const { return truth_; }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  void store(std::vector<KvEvent>& events) {
    BlockStored stored;
    stored.block_size = kBlockSize;
    if (!truth_.copies.empty() && below(4) > 0) {
      const auto parent = std::next(truth_.copies.begin(), static_cast<std::ptrdiff_t>(below(truth_.copies.size())));
      stored.parent = ExternalHash(parent->first);
      stored.lora_name = truth_.places.at(parent->first).lora;
    } else {
      if (below(3) == 0) stored.cache_salt = "salt";
      if (below(3) == 0) stored.lora_name = "adapter";
    }
    stored.other_extra_keys = below(8) == 0;
    for (std::uint64_t i = 1 + below(5); i > 0; --i) {
      stored.hashes.emplace_back(++last_hash_);
      for (std::uint32_t t = 0; t < kBlockSize; ++t) stored.tokens.emplace_back(static_cast<std::uint32_t>(below(100)));
    }
    truth_.take(stored);
    events.emplace_back(stored);
    if (below(5) > 0) return;
    truth_.take(stored);  // a second copy of the same blocks
    events.emplace_back(stored);
  }
  void remove(std::vector<KvEvent>& events) {
    const auto block = std::next(truth_.copies.begin(), static_cast<std::ptrdiff_t>(below(truth_.copies.size())));
    BlockRemoved removed;
    removed.hashes = {ExternalHash(block->first)};
    truth_.take(removed);
    events.emplace_back(removed);
  }

  std::mt19937_64 random_;
  std::uint64_t last_hash_ = 0;
  Subscriber truth_;
};

TEST(CacheContent, SaysInFewEventsWhatManyLeftBehind) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Worker worker(seed);
    CacheContent content;
    for (int step = 0; step < 300; ++step) {
      content.apply(worker.step());
      if (step % 37 != 0) continue;
      Subscriber late;
      ASSERT_TRUE(content.possible());
      late.apply(content.events());
      ASSERT_EQ(late.copies, worker.truth().copies);
      ASSERT_EQ(late.cached(), worker.truth().cached());
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CacheContent, APromptOfManyBlocksIsOneEvent) {
  CacheContent content;
  std::optional<ExternalHash> parent;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    BlockStored stored;
    stored.hashes = {ExternalHash(i)};
    stored.parent = std::exchange(parent, ExternalHash(i));
    stored.tokens.assign(kBlockSize, TokenId(1));
    stored.block_size = kBlockSize;
    content.apply({stored});
  }
  EXPECT_EQ(content.events().size(), 2U);
}

TEST(CacheContent, WhatNobodyNeedsIsForgotten) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Worker worker(seed);
    CacheContent content;
    for (int step = 0; step < 300; ++step) content.apply(worker.step());
    BlockRemoved all;
    for (const auto& [hash, copies] : worker.truth().copies)
      all.hashes.insert(all.hashes.end(), static_cast<std::size_t>(copies), ExternalHash(hash));
    content.apply({all});
    EXPECT_EQ(content.size(), 0U) << "seed " << seed;
  }
}

TEST(CacheContent, OtherMediaAndGroupsAreNotFollowed) {
  BlockStored stored;
  stored.hashes = {ExternalHash(1)};
  stored.tokens.assign(kBlockSize, TokenId(1));
  stored.block_size = kBlockSize;
  stored.medium = Medium::kHost;
  CacheContent content;
  content.apply({stored});
  EXPECT_FALSE(content.possible());
  content.apply({AllBlocksCleared{}});
  EXPECT_TRUE(content.possible());
  stored.medium = Medium::kDevice;
  stored.group = 1;
  content.apply({stored});
  EXPECT_FALSE(content.possible());
}

}  // namespace
}  // namespace kvist::kv::cache_content_test
