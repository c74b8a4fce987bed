#include "kvist/base/slot_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::slot_table_test {
namespace {

TEST(SlotTable, AHandleOfAnErasedValueIsInvalid) {
  SlotTable<int> table;
  EXPECT_EQ(table.find({}), nullptr);
  const auto first = table.insert(1);
  ASSERT_NE(table.find(first), nullptr);
  EXPECT_TRUE(table.erase(first));
  EXPECT_EQ(table.find(first), nullptr);
  const auto second = table.insert(2);
  EXPECT_EQ(second.slot, first.slot) << "the slot is used again";
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_FALSE(table.erase(first));
  EXPECT_EQ(*table.find(second), 2);
  EXPECT_EQ(table.find({}), nullptr);
}

TEST(SlotTable, ErasingDestroysTheValue) {
  SlotTable<std::shared_ptr<int>> table;
  const auto held = std::make_shared<int>(7);
  const auto handle = table.insert(held);
  EXPECT_EQ(held.use_count(), 2);
  table.erase(handle);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(SlotTable, BehavesLikeAMapWithKeysThatAreNeverReused) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    SlotTable<std::uint64_t> table;
    std::map<std::uint64_t, SlotTable<std::uint64_t>::Handle> live;
    std::map<std::uint64_t, const std::uint64_t*> places;
    std::vector<SlotTable<std::uint64_t>::Handle> gone;
    for (std::uint64_t value = 1; value <= 1'000; ++value) {
      live[value] = table.insert(value);
      places[value] = table.find(live[value]);
      if (random.uniform() < 0.7) {
        auto it = live.begin();
        std::advance(it, random.uniform_int(0, static_cast<std::int64_t>(live.size()) - 1));
        ASSERT_TRUE(table.erase(it->second));
        gone.push_back(it->second);
        live.erase(it);
      }
      ASSERT_EQ(table.size(), live.size());
    }
    for (const auto& [value, handle] : live) {
      ASSERT_NE(table.find(handle), nullptr);
      EXPECT_EQ(*table.find(handle), value);
      EXPECT_EQ(table.find(handle), places[value]) << "values never move";
    }
    for (const auto handle : gone) EXPECT_EQ(table.find(handle), nullptr);
    std::uint64_t sum = 0;
    table.for_each([&](std::uint64_t value) { sum += value; });
    std::uint64_t expected = 0;
    for (const auto& [value, handle] : live) expected += value;
    EXPECT_EQ(sum, expected);
  }
}

}  // namespace
}  // namespace kvist::slot_table_test
