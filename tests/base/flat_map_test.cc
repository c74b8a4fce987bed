#include "kvist/base/flat_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/random.h"

namespace kvist::flat_map_test {
namespace {

using Key = Id<struct KeyTag, std::uint64_t>;

TEST(FlatMap, IsEmptyAtFirst) {
  FlatMap<Key, int> map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.find(Key(0)), nullptr);
  EXPECT_FALSE(map.erase(Key(0)));
}

TEST(FlatMap, TakesEveryKey) {
  FlatMap<Key, int> map;
  for (const std::uint64_t key : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_TRUE(map.try_emplace(Key(key)).second);
    EXPECT_FALSE(map.try_emplace(Key(key)).second);
    EXPECT_EQ(*map.find(Key(key)), 0);
  }
  EXPECT_EQ(map.size(), 3U);
}

TEST(FlatMap, BehavesLikeAStandardMap) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    FlatMap<Key, std::uint64_t> map;
    std::unordered_map<Key, std::uint64_t> expected;
    // Few keys in large steps: probes meet, wrap around and close gaps; sizes go up and down.
    for (int step = 0; step < 20'000; ++step) {
      const Key key(static_cast<std::uint64_t>(random.uniform_int(0, 400)) << (seed * 8));
      const bool grows = (step / 2'000) % 2 == 0;
      if (random.uniform_int(0, 99) < (grows ? 70 : 20)) {
        map[key] = expected[key] = random.next();
      } else {
        ASSERT_EQ(map.erase(key), expected.erase(key) == 1);
      }
      ASSERT_EQ(map.size(), expected.size());
      const auto found = expected.find(key);
      const std::uint64_t* const value = map.find(key);
      ASSERT_EQ(value != nullptr, found != expected.end());
      if (value != nullptr) {
        ASSERT_EQ(*value, found->second);
      }
    }
    std::size_t visited = 0;
    map.for_each([&](Key key, std::uint64_t value) {
      ++visited;
      EXPECT_EQ(expected.at(key), value);
    });
    EXPECT_EQ(visited, expected.size());
    map.clear();
    EXPECT_TRUE(map.empty());
    map[Key(7)] = 7;
    EXPECT_EQ(map.size(), 1U);
  }
}

/// Keys that all belong into one slot if they are multiplied by the golden ratio.
std::vector<Key> keys_that_meet(std::uint64_t count) {
  std::uint64_t inverse = GoldenSpread::kMultiplier;  // Newton's method, modulo 2^64
  for (int i = 0; i < 6; ++i) inverse *= 2 - GoldenSpread::kMultiplier * inverse;
  std::vector<Key> keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.emplace_back(inverse * (mix_seed({i}) >> 24));
  return keys;
}

TEST(FlatMap, KeysChosenToMeetDoNotWithARandomSpread) {
  constexpr std::uint64_t kKeys = 10'000;
  FlatMap<Key, char> fixed;
  FlatMap<Key, char, RandomSpread> random;
  for (const Key key : keys_that_meet(kKeys)) {
    fixed[key] = 1;
    random[key] = 1;
  }
  EXPECT_EQ(fixed.longest_search(), kKeys);
  EXPECT_LT(random.longest_search(), kKeys / 10);
}

}  // namespace
}  // namespace kvist::flat_map_test
