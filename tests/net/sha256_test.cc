#include "kvist/net/sha256.h"

#include <gtest/gtest.h>

#include <set>

namespace kvist::net::sha256_test {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256Test, GivesThePublishedHashes) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, HexadecimalIsReadBack) {
  const Sha256 hash = sha256("x");
  EXPECT_EQ(sha256_from_hex(to_hex(hash)), hash);
  std::string upper = to_hex(hash);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(sha256_from_hex(upper), hash);
  EXPECT_FALSE(sha256_from_hex(to_hex(hash) + "0"));
  EXPECT_FALSE(sha256_from_hex(to_hex(hash).substr(1)));
  EXPECT_FALSE(sha256_from_hex(std::string(64, 'g')));
}

TEST(Sha256Test, EqualityIsThatOfAllBytes) {
  const Sha256 hash = sha256("x");
  EXPECT_TRUE(equal_in_constant_time(hash, sha256("x")));
  for (std::size_t i = 0; i < hash.size(); ++i) {
    Sha256 other = hash;
    other[i] ^= 0x10;
    EXPECT_FALSE(equal_in_constant_time(hash, other)) << i;
  }
}

TEST(RandomTextTest, HasAsManyCharactersAsItsBytesNeed) {
  for (const auto& [bytes, characters] : {std::pair(0, 0), {1, 2}, {2, 3}, {3, 4}, {32, 43}})
    EXPECT_EQ(random_text(static_cast<std::size_t>(bytes)).size(), static_cast<std::size_t>(characters));
  std::set<std::string> all;
  for (int i = 0; i < 1'000; ++i) all.insert(random_text(16));
  EXPECT_EQ(all.size(), 1'000U);
}

}  // namespace
}  // namespace kvist::net::sha256_test
