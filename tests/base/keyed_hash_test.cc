#include "kvist/base/keyed_hash.h"

#include <gtest/gtest.h>

#include <set>

namespace kvist::keyed_hash_test {
namespace {

TEST(KeyedHashTest, GivesTheValueOfTheAuthorsForEightBytes) {
  // Key 00 01 .. 0f, message 00 01 .. 07: entry 8 of the vectors of the reference implementation.
  const KeyedHash hash(0x0706050403020100, 0x0f0e0d0c0b0a0908);
  EXPECT_EQ(hash(0x0706050403020100), 0x93f5f5799a932462U);
  EXPECT_EQ(hash.json_number(0x0706050403020100), 0x93f5f5799a932462U >> 11);
}

TEST(KeyedHashTest, AnotherKeyGivesOtherNames) {
  std::set<std::uint64_t> names;
  for (std::uint64_t key = 0; key < 100; ++key) {
    names.insert(KeyedHash(key, 0)(1));
    names.insert(KeyedHash(0, key + 1)(1));
  }
  EXPECT_EQ(names.size(), 200U);
}

}  // namespace
}  // namespace kvist::keyed_hash_test
