#include "kvist/loadgen/agents/sample_page.h"

#include <gmock/gmock.h>

#include <cmath>

#include "kvist/base/random.h"

namespace kvist::loadgen::sample_page_test {
namespace {

using ::testing::HasSubstr;
using workload::TurnSample;

TurnSample sample_of(std::uint64_t id, std::size_t gaps = 3) {
  TurnSample sample;
  sample.conversation = ConversationId(id);
  sample.turn = 2;
  sample.outcome = workload::TurnOutcome::kFailed;
  sample.error = "the stream broke";
  sample.worker = "worker-7";
  sample.intended = TimePoint(Duration(1'000'000'001));
  sample.ready = TimePoint(Duration(1'000'000'002));
  sample.handed = TimePoint(Duration(1'000'000'003));
  sample.sent = TimePoint(Duration(1'000'000'004));
  sample.first_token = TimePoint(Duration(1'000'000'005));
  sample.last_token = TimePoint(Duration(1'000'000'006));
  sample.ended = TimePoint(Duration(1'000'000'007 + static_cast<std::int64_t>(id)));
  sample.prompt_tokens = 11;
  sample.cached_tokens = 12;
  sample.completion_tokens = 13;
  sample.counted_tokens = 14;
  sample.chunks = static_cast<std::uint32_t>(gaps) + 1;
  sample.predicted_cached_tokens = 15;
  sample.session = ConversationId(99);
  sample.longest_send_ms = 0.125F;
  sample.unstamped = 16;
  for (std::size_t i = 0; i < gaps; ++i) sample.gaps_ms.push_back(20.5F + static_cast<float>(i));
  sample.late_ms = {0.25F, 0.5F};
  sample.unsure_ms = {0.75F};
  return sample;
}

TEST(SamplePageTest, EverythingComesBack) {
  TurnSample plain;
  plain.conversation = ConversationId(5);
  const SamplePage page{.first = 40, .more = true, .samples = {sample_of(7), plain}};
  const std::string bytes = write_sample_page(page);
  const auto read = read_sample_page(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->first, 40U);
  EXPECT_TRUE(read->more);
  ASSERT_EQ(read->samples.size(), 2U);
  EXPECT_EQ(write_sample_page(*read), bytes);
  const TurnSample& got = read->samples[0];
  EXPECT_EQ(got.conversation, ConversationId(7));
  EXPECT_EQ(got.outcome, workload::TurnOutcome::kFailed);
  EXPECT_EQ(got.error, "the stream broke");
  EXPECT_EQ(got.session, ConversationId(99));
  EXPECT_EQ(got.predicted_cached_tokens, 15U);
  EXPECT_EQ(got.handed, sample_of(7).handed);
  EXPECT_EQ(got.unstamped, 16U);
  EXPECT_EQ(got.gaps_ms, sample_of(7).gaps_ms);
  EXPECT_FALSE(read->samples[1].session.has_value());
  EXPECT_EQ(read->samples[1].sent, TimePoint{});
}

TEST(SamplePageTest, WhatIsBrokenIsRefusedAndSaysWhere) {
  const std::string bytes = write_sample_page({.first = 0, .more = false, .samples = {sample_of(7)}});
  EXPECT_THAT(read_sample_page("nonsense").error().message, HasSubstr("has no mark"));
  EXPECT_THAT(read_sample_page(bytes + "x").error().message, HasSubstr("goes on"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(read_sample_page(std::string_view(bytes).substr(0, size)).has_value()) << size;
  }
  RandomStream random(3);
  for (int i = 0; i < 20'000; ++i) {  // any byte may be another one
    std::string other = bytes;
    other[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(other.size()) - 1))] =
        static_cast<char>(random.uniform_int(0, 255));
    const auto read = read_sample_page(other);
    if (!read) {
      EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    }
  }
  SamplePage infinite{.first = 0, .more = false, .samples = {sample_of(7)}};
  infinite.samples[0].gaps_ms[1] = std::nanf("");
  EXPECT_THAT(read_sample_page(write_sample_page(infinite)).error().message, HasSubstr("not finite"));
  SamplePage late{.first = 0, .more = false, .samples = {sample_of(7)}};
  late.samples[0].ended = TimePoint(Duration(-1));
  EXPECT_THAT(read_sample_page(write_sample_page(late)).error().message, HasSubstr("instant out of bounds"));
}

TEST(SampleOutboxTest, APageIsTheSameUntilTheNextIsAskedFor) {
  SampleOutbox outbox;
  outbox.add({sample_of(1), sample_of(2)});
  const std::string first = outbox.page_after(0).value();
  outbox.add({sample_of(3)});
  const auto again = read_sample_page(outbox.page_after(0).value()).value();
  ASSERT_EQ(again.samples.size(), 3U);
  EXPECT_EQ(again.samples[0].conversation, read_sample_page(first)->samples[0].conversation);
  const auto rest = read_sample_page(outbox.page_after(2).value()).value();
  EXPECT_EQ(rest.first, 2U);
  ASSERT_EQ(rest.samples.size(), 1U);
  EXPECT_EQ(rest.samples[0].conversation, ConversationId(3));
  EXPECT_FALSE(rest.more);
  EXPECT_EQ(outbox.waiting(), 1U);
  EXPECT_THAT(outbox.page_after(1).error().message, HasSubstr("want 2 to 3"));
  EXPECT_THAT(outbox.page_after(4).error().message, HasSubstr("want 2 to 3"));
}

TEST(SampleOutboxTest, PagesAreBoundedAndSoIsWhatWaits) {
  SampleOutbox outbox({.samples = 10, .bytes = std::size_t{1} << 30});
  for (std::uint64_t id = 0; id < 15; ++id) outbox.add({sample_of(id, 100'000)});  // 400 kB each
  EXPECT_EQ(outbox.refused(), 5U);
  std::uint64_t received = 0;
  int pages = 0;
  for (bool more = true; more; ++pages) {
    const std::string bytes = outbox.page_after(received).value();
    EXPECT_LT(bytes.size(), 2 * SampleOutbox::kPageBytes);
    const auto page = read_sample_page(bytes).value();
    for (const TurnSample& sample : page.samples) EXPECT_EQ(sample.conversation, ConversationId(received++));
    more = page.more;
  }
  EXPECT_EQ(received, 10U);
  EXPECT_EQ(pages, 4);
  outbox.add({sample_of(20)});
  EXPECT_EQ(outbox.refused(), 6U);  // those that are kept are all up to an instant, not a selection
}

}  // namespace
}  // namespace kvist::loadgen::sample_page_test
