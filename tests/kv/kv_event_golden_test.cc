// Batches that other encoders wrote (tests/golden/kv_events/record.py) and their meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "kvist/kv/kv_event_codec.h"

namespace kvist::kv::kv_event_golden_test {
namespace {

using ::testing::ElementsAre;

constexpr double kTimestamp = 1754000000.25;
constexpr std::uint64_t kBigHash = 0xFEDCBA9876543210;

std::string golden(const std::string& name) {
  std::ifstream file(KVIST_SOURCE_DIR "/tests/golden/kv_events/" + name + ".bin", std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

DecodedKvEvents decode(const std::string& name) {
  const std::string bytes = golden(name);
  auto decoded = decode_kv_events({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return decoded ? std::move(*decoded) : DecodedKvEvents{};
}

/// Decodes a file that must be understood completely.
KvEventBatch decode_all(const std::string& name) {
  DecodedKvEvents decoded = decode(name);
  EXPECT_EQ(decoded.skipped_events, 0U) << decoded.first_problem;
  EXPECT_EQ(decoded.unknown_fields.total(), 0U);
  EXPECT_EQ(decoded.first_problem, "");
  return std::move(decoded.batch);
}

std::vector<TokenId> token_ids(std::initializer_list<std::uint32_t> ids) {
  std::vector<TokenId> tokens;
  for (const std::uint32_t id : ids) tokens.emplace_back(id);
  return tokens;
}

/// The event that most files have.
BlockStored stored() {
  BlockStored event;
  event.hashes = {ExternalHash(11), ExternalHash(kBigHash)};
  event.tokens = token_ids({1, 200, 40'000, 128'000, 5, 6, 7, 8});
  event.block_size = 4;
  return event;
}

BlockRemoved removed() {
  return {.hashes = {ExternalHash(10)}};
}

KvEventBatch common_batch(std::optional<std::int32_t> rank) {
  return {.timestamp_s = kTimestamp, .events = {stored(), removed(), AllBlocksCleared{}}, .data_parallel_rank = rank};
}

TEST(KvEventGolden, ReadsMapEventsInAnArrayEnvelope) {
  EXPECT_EQ(decode_all("map_events"), common_batch(2));
}

TEST(KvEventGolden, ReadsPositionalEvents) {
  EXPECT_EQ(decode_all("array_events"), common_batch(2));
}

TEST(KvEventGolden, TheRankMayBeNilOrMissing) {
  EXPECT_EQ(decode_all("rank_nil"), common_batch(std::nullopt));
  EXPECT_EQ(decode_all("rank_missing"), common_batch(std::nullopt));
}

TEST(KvEventGolden, ReadsAMapEnvelope) {
  const KvEventBatch want{
      .timestamp_s = kTimestamp, .events = {stored(), stored(), removed()}, .data_parallel_rank = 2};
  EXPECT_EQ(decode_all("map_envelope"), want);
}

TEST(KvEventGolden, ReadsIntegerTimestampsAndNegativeRanks) {
  const KvEventBatch want{.timestamp_s = 1754000000, .events = {removed()}, .data_parallel_rank = -3};
  EXPECT_EQ(decode_all("integer_timestamp"), want);
}

TEST(KvEventGolden, ReadsAnEmptyBatch) {
  EXPECT_EQ(decode_all("empty_batch"),
            (KvEventBatch{.timestamp_s = kTimestamp, .events = {}, .data_parallel_rank = {}}));
}

TEST(KvEventGolden, SignedHashesAreTheirBits) {
  const auto batch = decode_all("signed_hashes");
  ASSERT_EQ(batch.events.size(), 2U);
  const auto& event = std::get<BlockStored>(batch.events[0]);
  EXPECT_THAT(event.hashes, ElementsAre(ExternalHash(~std::uint64_t{0}), ExternalHash(std::uint64_t{1} << 63)));
  EXPECT_EQ(event.parent, ExternalHash(kBigHash));
  EXPECT_THAT(std::get<BlockRemoved>(batch.events[1]).hashes, ElementsAre(ExternalHash(~std::uint64_t{0})));
}

TEST(KvEventGolden, RawHashesNameTheSameBlocksEverywhere) {
  for (const auto* name : {"raw_hashes", "raw_hashes_as_text"}) {
    const auto batch = decode_all(name);
    ASSERT_EQ(batch.events.size(), 2U);
    const auto& event = std::get<BlockStored>(batch.events[0]);
    ASSERT_EQ(event.hashes.size(), 2U);
    EXPECT_NE(event.hashes[0], event.hashes[1]);
    EXPECT_EQ(event.parent, event.hashes[0]);
    EXPECT_THAT(std::get<BlockRemoved>(batch.events[1]).hashes, ElementsAre(event.hashes[1]));
  }
  EXPECT_EQ(decode_all("raw_hashes"), decode_all("raw_hashes_as_text"));
}

TEST(KvEventGolden, ReadsSglangsShortTuples) {
  BlockStored first = stored();
  first.hashes = {ExternalHash(11), ExternalHash(12)};
  first.parent = ExternalHash(10);
  const BlockRemoved second{.hashes = {ExternalHash(11)}};
  const KvEventBatch want{
      .timestamp_s = kTimestamp, .events = {first, second, AllBlocksCleared{}}, .data_parallel_rank = 0};
  EXPECT_EQ(decode_all("sglang"), want);
}

TEST(KvEventGolden, CountsFieldsFromTheFutureAndReadsTheRest) {
  BlockStored first = stored();
  BlockRemoved second = removed();
  first.group = second.group = 3;
  const auto trailing = decode("newer_trailing_fields");
  EXPECT_EQ(trailing.skipped_events, 0U) << trailing.first_problem;
  EXPECT_EQ(trailing.unknown_fields.total(), 3U);
  EXPECT_THAT(trailing.batch.events, ElementsAre(KvEvent(first), KvEvent(second), KvEvent(AllBlocksCleared{})));
  const auto keyed = decode("newer_map_fields");
  EXPECT_EQ(keyed.skipped_events, 0U) << keyed.first_problem;
  EXPECT_EQ(keyed.unknown_fields.total(), 2U);
  EXPECT_THAT(keyed.batch.events, ElementsAre(KvEvent(first), KvEvent(second)));
}

TEST(KvEventGolden, ExtraKeysBecomeSaltLoraOrNoMatch) {
  const auto batch = decode_all("extra_keys");
  std::vector<std::string> got;
  for (const KvEvent& one : batch.events) {
    const auto& event = std::get<BlockStored>(one);
    got.push_back(event.lora_name + "/" + event.cache_salt + (event.other_extra_keys ? "/other" : ""));
  }
  EXPECT_THAT(got, ElementsAre("/salty", "/", "adapter/salty", "adapter/", "//other", "/salty/other",
                               "//other",  // a salt only comes with a prompt's first block
                               "//other", "//other", "//other",
                               "//other",  // a LoRA of which only the number is known
                               "/"));
}

TEST(KvEventGolden, ReadsEveryMedium) {
  const auto batch = decode_all("media");
  std::vector<Medium> got;
  for (const KvEvent& one : batch.events) got.push_back(std::get<BlockStored>(one).medium);
  EXPECT_THAT(
      got, ElementsAre(Medium::kDevice, Medium::kDevice, Medium::kDevice, Medium::kDevice, Medium::kHost, Medium::kHost,
                       Medium::kHost, Medium::kDisk, Medium::kDisk, Medium::kDisk, Medium::kDisk, Medium::kRemote));
}

TEST(KvEventGolden, ReadsBlocksThatAreOnlyNamed) {
  const auto batch = decode_all("offloaded");
  ASSERT_EQ(batch.events.size(), 5U);
  const auto& named = std::get<BlockStored>(batch.events[1]);
  EXPECT_THAT(named.hashes, ElementsAre(ExternalHash(11), ExternalHash(kBigHash)));
  EXPECT_TRUE(named.tokens.empty());
  EXPECT_EQ(named.medium, Medium::kHost);
  EXPECT_EQ(std::get<BlockRemoved>(batch.events[2]).medium, Medium::kDevice);
  EXPECT_EQ(std::get<BlockStored>(batch.events[3]).medium, Medium::kHost);
  EXPECT_EQ(std::get<BlockRemoved>(batch.events[4]).medium, Medium::kHost);
}

TEST(KvEventGolden, BadEventsAreCountedAndAffectNoOthers) {
  const auto decoded = decode("bad_events");
  EXPECT_THAT(decoded.batch.events, ElementsAre(KvEvent(removed()), KvEvent(AllBlocksCleared{})));
  EXPECT_EQ(decoded.skipped_events, 19U);
  EXPECT_EQ(decoded.first_problem, "unknown event \"BlockUpdated\"");
}

TEST(KvEventGolden, WritesTheBytesThatOthersWrite) {
  EXPECT_EQ(encode_kv_events(common_batch(2)), golden("map_events"));
}

TEST(KvEventGolden, WritesEveryPartAsOthersDo) {
  KvEventBatch batch{.timestamp_s = kTimestamp, .events = {}, .data_parallel_rank = -200};
  BlockStored salted = stored();
  salted.cache_salt = "salty";
  BlockStored continued = stored();
  continued.parent = ExternalHash(kBigHash);
  continued.medium = Medium::kHost;
  BlockStored adapted = salted;
  adapted.lora_name = "adapter";
  adapted.medium = Medium::kDisk;
  adapted.group = 300;
  BlockStored opaque = stored();
  opaque.other_extra_keys = true;
  opaque.medium = Medium::kRemote;
  BlockStored wide = stored();
  wide.hashes.clear();
  wide.tokens.clear();
  for (std::uint32_t i = 0; i < 20; ++i) wide.hashes.emplace_back(100 + i);
  for (std::uint32_t i = 0; i < 80; ++i) wide.tokens.emplace_back(65'500 + i);
  const BlockRemoved gone{.hashes = {ExternalHash(10), ExternalHash(1ULL << 32)}, .group = 70'000};
  batch.events = {salted, continued, adapted, opaque, wide, gone, AllBlocksCleared{}};
  EXPECT_EQ(encode_kv_events(batch), golden("encoder"));
  EXPECT_EQ(decode_all("encoder"), batch);
}

TEST(KvEventGolden, ASaltIsWrittenOnlyWhereAPromptStarts) {
  BlockStored event = stored();
  event.cache_salt = "salty";
  event.parent = ExternalHash(1);
  const KvEventBatch batch{.timestamp_s = 0, .events = {event}, .data_parallel_rank = {}};
  EXPECT_EQ(encode_kv_events(batch).find("salty"), std::string::npos);
}

TEST(KvEventCodec, OnlyABrokenEnvelopeIsAnError) {
  const auto error_of = [](std::vector<std::uint8_t> bytes) {
    const auto decoded = decode_kv_events(bytes);
    EXPECT_FALSE(decoded.has_value());
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    return decoded ? std::string() : decoded.error().message;
  };
  EXPECT_EQ(error_of({}), "KV events: the payload is empty or no msgpack");
  EXPECT_EQ(error_of({0xc1}), "KV events: the payload is empty or no msgpack");
  EXPECT_EQ(error_of({0x05}), "KV events: the batch is neither array nor map");
  EXPECT_EQ(error_of({0x90}), "KV events: the batch has no list of events");
  EXPECT_EQ(error_of({0x92, 0x00, 0x00}), "KV events: the batch has no list of events");
  EXPECT_EQ(error_of({0x81, 0xa2, 't', 's', 0x00}), "KV events: the batch has no list of events");
  EXPECT_EQ(error_of({0x92, 0x00, 0x90, 0x00}), "KV events: bytes follow the batch");
  EXPECT_EQ(error_of({0x92, 0x00, 0x91, 0x92}), "KV events: the payload ends early or is no msgpack");
  EXPECT_EQ(error_of({0x92, 0x00, 0x91, 0xdd, 0xff, 0xff, 0xff, 0xff}),
            "KV events: the payload ends early or is no msgpack");
}

TEST(KvEventCodec, EveryCutOfABatchIsAnError) {
  const std::string bytes = golden("encoder");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_kv_events({reinterpret_cast<const std::uint8_t*>(bytes.data()), size}).has_value()) << size;
}

TEST(KvEventCodec, AnEndlessTimestampIsNone) {
  const std::vector<std::uint8_t> infinite = {0x92, 0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0, 0x90};
  const auto decoded = decode_kv_events(infinite);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->batch.timestamp_s, 0);
}

TEST(KvEventCodec, ProblemsAreSafeForALogLine) {
  const std::vector<std::uint8_t> bytes = {0x92, 0x00, 0x91, 0x91, 0xa4, '\n', 0xff, 'a', '"'};
  const auto decoded = decode_kv_events(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->first_problem, "unknown event \"??a\"\"");
}

}  // namespace
}  // namespace kvist::kv::kv_event_golden_test
