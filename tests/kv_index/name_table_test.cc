// The writer's hash table against a map, and its comparison of hashes against a loop.
#include "kvist/kv_index/name_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>

#include "kvist/base/random.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/slot_segment.h"

namespace kvist::kv_index::name_table_test {
namespace {

template <class Line>
class LinesOfHashes : public ::testing::Test {};
using Lines = ::testing::Types<HashLine, HeadLine>;
TYPED_TEST_SUITE(LinesOfHashes, Lines);

TYPED_TEST(LinesOfHashes, FindHashesAndFreeSlots) {
  using Hash = typename TypeParam::Hash;
  constexpr auto kSlots = TypeParam::kSlots;
  constexpr auto kUpper = static_cast<Hash>(Hash{1} << (sizeof(Hash) * 4));
  constexpr Hash kSome[] = {0, 0, 1, 2, kUpper, kUpper + 1, static_cast<Hash>(~Hash{0})};  // some have a half in common
  RandomStream random(1);
  for (int round = 0; round < 2'000; ++round) {
    TypeParam line{};
    std::array<Hash, kSlots> hashes{};
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      hashes[slot] = kSome[static_cast<std::size_t>(random.uniform_int(0, 6))];
      if (hashes[slot] != 0) line.put(slot, hashes[slot], slot + 1);
    }
    line.marks().count_passed(static_cast<int>(random.uniform_int(0, 1'000'000)));
    for (const Hash sought : {Hash{1}, Hash{2}, Hash{3}, kUpper, static_cast<Hash>(kUpper + 1), kSome[6]}) {
      std::uint32_t expected = 0;
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) expected |= (hashes[slot] == sought ? 1U : 0U) << slot;
      ASSERT_EQ(line.match(sought), expected) << "hash " << sought << " in round " << round;
      ASSERT_EQ(line.match_shared(sought), expected) << "hash " << sought << " in round " << round;
    }
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_EQ((line.marks().live() >> slot & 1) != 0, hashes[slot] != 0);
      ASSERT_EQ((line.marks().free() >> slot & 1) != 0, hashes[slot] == 0);
      if (hashes[slot] == 0) continue;
      ASSERT_EQ(line.hash(slot), hashes[slot]);
      ASSERT_EQ(line.value(slot), slot + 1);
    }
  }
}

// Grows to `most` names and shrinks again, several times.
void compare_with_map(std::uint64_t seed, std::size_t most, bool counted_names) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  Epochs epochs;
  IndexMemory memory(epochs, std::size_t{1} << 30);
  {
    NameTable table(memory);
    std::map<std::uint64_t, std::uint64_t> model;
    const auto random_name = [&] {
      const auto number = static_cast<std::uint64_t>(random.uniform_int(0, static_cast<std::int64_t>(2 * most)));
      return counted_names ? number : mix_seed({number});
    };
    for (int phase = 0; phase < 6; ++phase) {
      for (std::size_t step = 0; step < 3 * most; ++step) {
        const std::uint64_t name = random_name();
        const auto known = model.find(name);
        const std::uint64_t before = known == model.end() ? 0 : known->second;
        ASSERT_EQ(table.find(NameDigest(name)), before);
        if (random.uniform() < (phase % 2 == 0 ? 0.75 : 0.2)) {
          ASSERT_EQ(table.insert(NameDigest(name), static_cast<std::uint32_t>(step + 1)), before);
          model.try_emplace(name, step + 1);
        } else {
          ASSERT_EQ(table.erase(NameDigest(name)), before);
          model.erase(name);
        }
        ASSERT_EQ(table.size(), model.size());
      }
      std::map<std::uint64_t, std::uint64_t> seen;
      for (std::uint32_t part = 0; part < table.parts(); ++part) {
        table.for_each_in(part, [&](NameDigest name, std::uint64_t value) { seen[name.bits()] = value; });
      }
      std::map<std::uint64_t, std::uint64_t> expected;
      for (const auto& [name, value] : model) expected[NameDigest(name).bits()] = value;
      ASSERT_EQ(seen, expected);
    }
  }
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(NameTable, EqualsAMap) {
  compare_with_map(1, 10, true);
  compare_with_map(2, 300, false);
  compare_with_map(3, 5'000, true);
  compare_with_map(4, 20'000, false);
}

// Hashes that all belong into one line, as a client may choose them, of which one comes and goes: no rebuild helps.
TEST(SegmentedSlots, IsNotRebuiltAgainAndAgainForHashesThatMeet) {
  using Slots = SegmentedSlots<HashLine, false, 1024>;
  constexpr std::uint32_t kRounds = 1'000;
  for (std::uint64_t entries = 8; entries < 200; ++entries) {
    SCOPED_TRACE(entries);
    Epochs epochs;
    IndexMemory memory(epochs, std::size_t{1} << 30);
    Slots slots(memory);
    for (std::uint64_t hash = 1; hash <= entries; ++hash) slots.put(hash, 1);
    const auto shape = [&] {
      Slots::Lookup lookup;
      Slots::Prefetcher(slots).prefetch(1, lookup);
      return lookup.shape;
    };
    const std::uint32_t before = shape();
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const Slots::Place place = slots.find(entries);
      ASSERT_NE(place.line, nullptr);
      place.line->erase(place.slot);
      slots.removed(place, entries);
      slots.put(entries, 1);
    }
    EXPECT_LT(shape() - before, kRounds / 10);
  }
}

}  // namespace
}  // namespace kvist::kv_index::name_table_test
