#include "kvist/kv/field_counts.h"

#include <gmock/gmock.h>

#include "kvist/kv/kv_event_codec.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv::field_counts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(FieldCounts, CountsByName) {
  FieldCounts counts;
  counts.add("session_id");
  counts.add("depth", 2);
  counts.add("session_id");
  EXPECT_THAT(counts.counts(), ElementsAre(Pair("session_id", 2), Pair("depth", 2)));
  EXPECT_EQ(counts.total(), 4U);
}

TEST(FieldCounts, NamesAreBoundedInNumberAndKind) {
  FieldCounts counts;
  counts.add("a name\n");
  counts.add(std::string(FieldCounts::kMaxNameBytes + 1, 'x'));
  counts.add("");
  EXPECT_THAT(counts.counts(), ElementsAre(Pair("other", 3)));
  for (int i = 0; i < 100; ++i) counts.add("field_" + std::to_string(i));
  EXPECT_LE(counts.counts().size(), FieldCounts::kMaxNames + 1);
  EXPECT_EQ(counts.total(), 103U);
  FieldCounts sum;
  sum.add(counts);
  sum.add(counts);
  EXPECT_EQ(sum.total(), 206U);
  EXPECT_LE(sum.counts().size(), FieldCounts::kMaxNames + 1);
}

// vLLM 0.32 with X-Session-ID.
TEST(FieldCounts, AnEventWithASessionIsReadAndItsSessionCounted) {
  std::string bytes;
  MsgpackWriter writer(bytes);
  writer.array(2);
  writer.real(1.5);
  writer.array(1);
  writer.map(6);
  writer.string("type");
  writer.string("BlockStored");
  writer.string("block_hashes");
  writer.array(1);
  writer.unsigned_integer(7);
  writer.string("parent_block_hash");
  writer.nil();
  writer.string("token_ids");
  writer.array(2);
  writer.unsigned_integer(1);
  writer.unsigned_integer(2);
  writer.string("block_size");
  writer.unsigned_integer(2);
  writer.string("session_id");
  writer.string("a session");
  const auto decoded = decode_kv_events({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->skipped_events, 0U) << decoded->first_problem;
  EXPECT_EQ(decoded->batch.events.size(), 1U);
  EXPECT_THAT(decoded->unknown_fields.counts(), ElementsAre(Pair("session_id", 1)));
}

}  // namespace
}  // namespace kvist::kv::field_counts_test
