#include "kvist/kv/msgpack.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace kvist::kv::msgpack_test {
namespace {

using Kind = MsgpackToken::Kind;
using Bytes = std::vector<std::uint8_t>;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The one item that `write` writes.
template <class Write>
MsgpackToken round_trip(std::string& out, Write write) {
  out.clear();
  MsgpackWriter writer(out);
  write(writer);
  MsgpackReader reader(bytes_of(out));
  const auto token = reader.next();
  EXPECT_TRUE(token.has_value());
  EXPECT_TRUE(reader.at_end());
  return token.value_or(MsgpackToken{});
}

TEST(Msgpack, UnsignedIntegersOfEveryWidth) {
  const std::vector<std::pair<std::uint64_t, std::size_t>> cases = {
      {0, 1},      {127, 1},    {128, 2},         {255, 2},        {256, 3},
      {65'535, 3}, {65'536, 5}, {0xffff'ffff, 5}, {1ULL << 32, 9}, {std::numeric_limits<std::uint64_t>::max(), 9},
  };
  std::string out;
  for (const auto& [value, size] : cases) {
    const auto token = round_trip(out, [&](MsgpackWriter& w) { w.unsigned_integer(value); });
    EXPECT_EQ(token.kind, Kind::kUnsigned);
    EXPECT_EQ(token.integer, value);
    EXPECT_EQ(out.size(), size) << value;
  }
}

TEST(Msgpack, SignedIntegersOfEveryWidth) {
  const std::vector<std::pair<std::int64_t, std::size_t>> cases = {
      {5, 1},
      {-1, 1},
      {-32, 1},
      {-33, 2},
      {-128, 2},
      {-129, 3},
      {-32'768, 3},
      {-32'769, 5},
      {std::numeric_limits<std::int32_t>::min(), 5},
      {-(1LL << 31) - 1, 9},
      {std::numeric_limits<std::int64_t>::min(), 9},
  };
  std::string out;
  for (const auto& [value, size] : cases) {
    const auto token = round_trip(out, [&](MsgpackWriter& w) { w.signed_integer(value); });
    EXPECT_EQ(token.kind, value < 0 ? Kind::kNegative : Kind::kUnsigned);
    EXPECT_EQ(static_cast<std::int64_t>(token.integer), value);
    EXPECT_EQ(out.size(), size) << value;
  }
}

TEST(Msgpack, APositiveNumberInASignedFormIsUnsigned) {
  const Bytes bytes = {0xd1, 0x01, 0x00};
  const auto token = MsgpackReader(bytes).next();
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->kind, Kind::kUnsigned);
  EXPECT_EQ(token->integer, 256U);
}

TEST(Msgpack, StringsAndBinaryOfEveryWidth) {
  std::string out;
  for (const std::size_t size : {0U, 31U, 32U, 255U, 256U, 65'535U, 65'536U}) {
    const std::string text(size, 'x');
    const auto string = round_trip(out, [&](MsgpackWriter& w) { w.string(text); });
    EXPECT_EQ(string.kind, Kind::kString);
    EXPECT_EQ(string.text(), text);
    const auto binary = round_trip(out, [&](MsgpackWriter& w) { w.binary(bytes_of(text)); });
    EXPECT_EQ(binary.kind, Kind::kBinary);
    EXPECT_EQ(binary.bytes.size(), size);
  }
}

TEST(Msgpack, NilBooleansAndReals) {
  std::string out;
  EXPECT_EQ(round_trip(out, [](MsgpackWriter& w) { w.nil(); }).kind, Kind::kNil);
  EXPECT_TRUE(round_trip(out, [](MsgpackWriter& w) { w.boolean(true); }).boolean);
  EXPECT_FALSE(round_trip(out, [](MsgpackWriter& w) { w.boolean(false); }).boolean);
  EXPECT_EQ(round_trip(out, [](MsgpackWriter& w) { w.real(-1.5e300); }).real, -1.5e300);
  const Bytes single = {0xca, 0x3f, 0xc0, 0x00, 0x00};
  EXPECT_EQ(MsgpackReader(single).next()->real, 1.5);
}

TEST(Msgpack, ContainersOfEveryWidth) {
  for (const std::size_t items : {0U, 15U, 16U, 65'535U, 65'536U}) {
    std::string out;
    MsgpackWriter writer(out);
    writer.array(items);
    for (std::size_t i = 0; i < items; ++i) writer.nil();
    writer.map(items);
    for (std::size_t i = 0; i < 2 * items; ++i) writer.nil();
    MsgpackReader reader(bytes_of(out));
    const auto array = MsgpackReader(reader).next();
    EXPECT_EQ(array->kind, Kind::kArray);
    EXPECT_EQ(array->count, items);
    ASSERT_TRUE(reader.skip().has_value());
    const auto map = MsgpackReader(reader).next();
    EXPECT_EQ(map->kind, Kind::kMap);
    EXPECT_EQ(map->count, items);
    ASSERT_TRUE(reader.skip().has_value());
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(Msgpack, ExtensionsAreSkipped) {
  const Bytes bytes = {0xd6, 0x05, 1, 2, 3, 4, 0xc7, 0x02, 0x05, 1,  2,  0xd8, 0x05, 1,  2,
                       3,    4,    5, 6, 7, 8, 9,    10,   11,   12, 13, 14,   15,   16, 0x2a};
  MsgpackReader reader(bytes);
  for (const std::size_t size : {4U, 2U, 16U}) {
    const auto token = reader.next();
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ(token->kind, Kind::kExtension);
    EXPECT_EQ(token->bytes.size(), size);
  }
  EXPECT_EQ(reader.next()->integer, 42U);
}

TEST(Msgpack, SkipReturnsExactlyOneValue) {
  std::string out;
  MsgpackWriter writer(out);
  writer.map(1);
  writer.string("a");
  writer.array(2);
  writer.unsigned_integer(1000);
  writer.array(0);
  const std::size_t size = out.size();
  writer.nil();
  MsgpackReader reader(bytes_of(out));
  EXPECT_EQ(reader.skip()->size(), size);
  EXPECT_EQ(reader.next()->kind, Kind::kNil);
  EXPECT_TRUE(reader.at_end());
}

TEST(Msgpack, AnyDepthIsSkippedWithoutRecursion) {
  Bytes bytes(10'000'000, 0x91);
  bytes.push_back(0xc0);
  MsgpackReader reader(bytes);
  EXPECT_EQ(reader.skip()->size(), bytes.size());
}

TEST(Msgpack, EveryCutIsRefused) {
  std::string out;
  MsgpackWriter writer(out);
  writer.array(5);
  writer.string(std::string(300, 'x'));
  writer.unsigned_integer(1ULL << 40);
  writer.real(1.5);
  writer.map(1);
  writer.nil();
  writer.signed_integer(-1000);
  writer.binary(bytes_of("abc"));
  for (std::size_t size = 0; size < out.size(); ++size)
    EXPECT_FALSE(MsgpackReader(bytes_of(out).first(size)).skip().has_value()) << size;
  EXPECT_TRUE(MsgpackReader(bytes_of(out)).skip().has_value());
}

TEST(Msgpack, ContainersCannotClaimMoreThanThereIs) {
  EXPECT_FALSE(MsgpackReader(Bytes{0xdd, 0xff, 0xff, 0xff, 0xff, 0x01}).next().has_value());
  EXPECT_FALSE(MsgpackReader(Bytes{0xdf, 0xff, 0xff, 0xff, 0xff, 0x01}).next().has_value());
  EXPECT_FALSE(MsgpackReader(Bytes{0x81, 0x01}).next().has_value());
  EXPECT_TRUE(MsgpackReader(Bytes{0x91, 0x01}).next().has_value());
}

TEST(Msgpack, TheUnusedByteIsRefused) {
  EXPECT_FALSE(MsgpackReader(Bytes{0xc1}).next().has_value());
}

}  // namespace
}  // namespace kvist::kv::msgpack_test
