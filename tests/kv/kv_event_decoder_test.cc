// What a decoder that keeps its memory must get right beyond what the golden files show.
#include "kvist/kv/kv_event_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kvist/kv/kv_event_codec.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv::kv_event_decoder_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// A batch of events in the map form, field by field.
class BatchWriter {
 public:
  explicit BatchWriter(std::size_t events) : writer_(payload_) {
    writer_.array(2);
    writer_.real(1.5);
    writer_.array(events);
  }

  BatchWriter& event(std::string_view type, std::size_t further_fields) {
    writer_.map(1 + further_fields);
    writer_.string("type");
    writer_.string(type);
    return *this;
  }
  BatchWriter& list(std::string_view field, std::initializer_list<std::uint64_t> values) {
    writer_.string(field);
    writer_.array(values.size());
    for (const std::uint64_t value : values) writer_.unsigned_integer(value);
    return *this;
  }
  BatchWriter& number(std::string_view field, std::uint64_t value) {
    writer_.string(field);
    writer_.unsigned_integer(value);
    return *this;
  }
  /// A field whose value is these bytes.
  BatchWriter& raw(std::string_view field, std::string_view value) {
    writer_.string(field);
    payload_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& payload() const { return payload_; }

 private:
  std::string payload_;
  MsgpackWriter writer_;
};

class KvEventDecoding : public ::testing::Test {
 protected:
  KvEventBatchView decode(const BatchWriter& batch) {
    auto decoded = decoder_.decode(bytes_of(batch.payload()));
    EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
    return decoded ? std::move(*decoded) : KvEventBatchView{};
  }

  KvEventDecoder decoder_;
};

TEST_F(KvEventDecoding, ListsOfSkippedAndOtherEventsLeaveThoseBehindThemInPlace) {
  BatchWriter batch(6);
  batch.event("BlockStored", 3).list("block_hashes", {1}).list("token_ids", {7, 300}).number("block_size", 2);
  batch.event("Future", 2).list("block_hashes", {90, 91}).list("token_ids", {92});
  batch.event("BlockRemoved", 2).list("token_ids", {93, 94}).list("block_hashes", {2});
  batch.event("AllBlocksCleared", 2).list("block_hashes", {95}).list("token_ids", {96});
  batch.event("BlockStored", 3).list("block_hashes", {97}).list("token_ids", {98}).number("block_size", 2);
  batch.event("BlockStored", 3).number("block_size", 1).list("token_ids", {70'000, 5}).list("block_hashes", {3, 4});
  for (int i = 0; i < 2; ++i) {
    const KvEventBatchView decoded = decode(batch);
    EXPECT_EQ(decoded.skipped_events, 2U);
    EXPECT_EQ(decoded.first_problem, "unknown event \"Future\"");
    ASSERT_EQ(decoded.events.size(), 4U);
    EXPECT_THAT(decoded.events[0].hashes, ElementsAre(ExternalHash(1)));
    EXPECT_THAT(decoded.events[0].tokens, ElementsAre(TokenId(7), TokenId(300)));
    EXPECT_THAT(decoded.events[1].hashes, ElementsAre(ExternalHash(2)));
    EXPECT_THAT(decoded.events[1].tokens, IsEmpty());
    EXPECT_EQ(decoded.events[2].kind, KvEventView::Kind::kCleared);
    EXPECT_THAT(decoded.events[2].hashes, IsEmpty());
    EXPECT_THAT(decoded.events[3].hashes, ElementsAre(ExternalHash(3), ExternalHash(4)));
    EXPECT_THAT(decoded.events[3].tokens, ElementsAre(TokenId(70'000), TokenId(5)));
  }
}

TEST_F(KvEventDecoding, OfAFieldThatComesTwiceTheLastCounts) {
  BatchWriter batch(1);
  batch.event("BlockStored", 6)
      .list("token_ids", {1, 2, 3})
      .raw("block_hashes", "\x91\xc3")  // a list with a boolean
      .number("block_size", 3)
      .list("block_hashes", {9})
      .raw("token_ids", "\xa1x")
      .list("token_ids", {4, 5, 6});
  const KvEventBatchView decoded = decode(batch);
  ASSERT_EQ(decoded.events.size(), 1U) << decoded.first_problem;
  EXPECT_THAT(decoded.events[0].hashes, ElementsAre(ExternalHash(9)));
  EXPECT_THAT(decoded.events[0].tokens, ElementsAre(TokenId(4), TokenId(5), TokenId(6)));
}

TEST_F(KvEventDecoding, TokenIdsOfEveryWidthUpToTheLastByte) {
  using std::string_view_literals::operator""sv;
  BatchWriter batch(1);
  batch.event("BlockStored", 3).list("block_hashes", {1}).number("block_size", 11);
  batch.raw("token_ids",
            "\x9b\x00\x7f\xcc\x80\xcc\xff\xcd\x01\x00\xcd\xff\xff\xce\x00\x01\x00\x00\xce\xff\xff\xff\xff"
            "\xcf\x00\x00\x00\x00\x00\x01\x00\x00\xd2\x00\x00\x00\x09\x08"sv);
  const KvEventBatchView decoded = decode(batch);
  ASSERT_EQ(decoded.events.size(), 1U) << decoded.first_problem;
  EXPECT_THAT(decoded.events[0].tokens,
              ElementsAre(TokenId(0), TokenId(0x7f), TokenId(0x80), TokenId(0xff), TokenId(0x100), TokenId(0xffff),
                          TokenId(0x1'0000), TokenId(0xffff'ffff), TokenId(0x1'0000), TokenId(9), TokenId(8)));
}

TEST_F(KvEventDecoding, AListWithOneBadItemIsPassedOverWhole) {
  using std::string_view_literals::operator""sv;
  BatchWriter batch(3);
  batch.event("BlockStored", 3).list("block_hashes", {1}).number("block_size", 1);
  batch.raw("token_ids", "\x93\x01\x92\x02\x91\x03\x04"sv);  // [1, [2, [3]], 4]
  batch.event("BlockStored", 3).list("token_ids", {1}).number("block_size", 1);
  batch.raw("block_hashes", "\x92\xcf\x00\x00\x00\x00\x00\x00\x00\x01\x81\xa1k\xc0"sv);  // [1, {"k": nil}]
  batch.event("BlockRemoved", 1).list("block_hashes", {5});
  const KvEventBatchView decoded = decode(batch);
  EXPECT_EQ(decoded.skipped_events, 2U);
  EXPECT_EQ(decoded.first_problem, "BlockStored: token_ids is not a list of 32-bit token ids");
  ASSERT_EQ(decoded.events.size(), 1U);
  EXPECT_THAT(decoded.events[0].hashes, ElementsAre(ExternalHash(5)));
}

TEST_F(KvEventDecoding, WrongNumbersOfTokensAreNamed) {
  BatchWriter batch(1);
  batch.event("BlockStored", 3).list("block_hashes", {1, 2}).list("token_ids", {1, 2, 3}).number("block_size", 2);
  EXPECT_EQ(decode(batch).first_problem, "BlockStored: 3 tokens in 2 blocks of 2");
}

TEST_F(KvEventDecoding, OfSeveralListsOfEventsTheLastCounts) {
  std::string payload;
  MsgpackWriter writer(payload);
  writer.map(2);
  for (const std::uint64_t name : {1, 2}) {
    writer.string("events");
    writer.array(2);
    writer.nil();
    writer.map(2);
    writer.string("type");
    writer.string("BlockRemoved");
    writer.string("block_hashes");
    writer.array(1);
    writer.unsigned_integer(name);
  }
  const auto decoded = decoder_.decode(bytes_of(payload));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->skipped_events, 1U);
  ASSERT_EQ(decoded->events.size(), 1U);
  EXPECT_THAT(decoded->events[0].hashes, ElementsAre(ExternalHash(2)));
}

TEST_F(KvEventDecoding, ReadsASmallBatchAfterALargeOne) {
  BlockStored large;
  large.block_size = 16;
  for (std::uint32_t i = 0; i < 100'000; ++i) large.hashes.emplace_back(i);
  for (std::uint32_t i = 0; i < 1'600'000; ++i) large.tokens.emplace_back(i % 100'000);
  const std::string payload = encode_kv_events({.timestamp_s = 0, .events = {large}, .data_parallel_rank = {}});
  const auto decoded = decoder_.decode(bytes_of(payload));
  ASSERT_TRUE(decoded.has_value());
  ASSERT_EQ(decoded->events.size(), 1U);
  EXPECT_EQ(copy_of(decoded->events[0]), KvEvent(large));
  BatchWriter batch(1);
  batch.event("BlockRemoved", 1).list("block_hashes", {5});
  EXPECT_THAT(decode(batch).events[0].hashes, ElementsAre(ExternalHash(5)));
}

}  // namespace
}  // namespace kvist::kv::kv_event_decoder_test
