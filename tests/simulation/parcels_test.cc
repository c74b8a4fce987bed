#include "kvist/simulation/parcels.h"

#include <gtest/gtest.h>

#include <string>

namespace kvist::simulation::parcels_test {
namespace {

const std::string kLong(1'000, 'a');  // longer than what a string has in itself

TEST(Parcels, StayWhereTheyAreUntilTheyAreTaken) {
  Parcels<std::string> parcels;
  const std::uint64_t one = parcels.put("one");
  const std::uint64_t two = parcels.put("two");
  EXPECT_EQ(parcels.in_transit(), 2U);
  EXPECT_EQ(parcels.take(one), "one");
  EXPECT_EQ(parcels.at(two), "two");
  EXPECT_EQ(parcels.put("three"), one) << "numbers are reused";
  EXPECT_EQ(parcels.take(two), "two");
  EXPECT_EQ(parcels.in_transit(), 1U);
}

TEST(Parcels, WhoExchangesGetsTheMemoryOfAnEarlierOne) {
  Parcels<std::string> parcels;
  std::string message = kLong;
  const char* const memory = message.data();
  const std::uint64_t first = parcels.exchange(message);
  EXPECT_TRUE(message.empty()) << "there was no earlier one";
  EXPECT_EQ(parcels.at(first), kLong);
  EXPECT_EQ(parcels.at(first).data(), memory) << "it is not copied";
  parcels.at(first).clear();
  parcels.end(first);
  EXPECT_EQ(parcels.in_transit(), 0U);

  message = "two";
  EXPECT_EQ(parcels.exchange(message), first);
  EXPECT_EQ(parcels.at(first), "two");
  EXPECT_TRUE(message.empty());
  EXPECT_EQ(message.data(), memory);
  EXPECT_EQ(parcels.in_transit(), 1U);
}

}  // namespace
}  // namespace kvist::simulation::parcels_test
