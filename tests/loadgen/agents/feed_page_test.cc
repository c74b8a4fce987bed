#include "kvist/loadgen/agents/feed_page.h"

#include <gmock/gmock.h>

#include <string>

namespace kvist::loadgen::feed_page_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TimePoint at(int ms) {
  return TimePoint(milliseconds(ms));
}

FeedPage full_page() {
  FeedPage page;
  page.number = 7;
  page.until = at(900);
  page.totals = {.turns_succeeded = 1,
                 .turns_failed = 2,
                 .turns_abandoned = 3,
                 .conversations_started = 4,
                 .output_tokens = 5,
                 .missing_usage = 6,
                 .samples_refused = 7};
  page.batch.first_tokens = {{.at = at(10), .ttft = milliseconds(4)}};
  page.batch.chunks = {{.at = at(10), .count = 3}, {.at = at(30), .count = 1}};
  page.batch.gaps_ms = {1.5F, 20};
  page.batch.conversation_starts = {at(6)};
  page.batch.started = {{.at = at(6),
                         .conversation = ConversationId(12),
                         .turn = 0,
                         .added = {{.role = "user", .text = "tell\nme \xE2\x82\xAC", .cut = true}}},
                        {.at = at(8), .conversation = ConversationId(13), .turn = 2}};
  workload::LoadBatch::EndedTurn ended;
  ended.sample.conversation = ConversationId(12);
  ended.sample.sent = at(6);
  ended.sample.ended = at(40);
  ended.sample.worker = "w-1";
  ended.answer = {.role = "assistant", .text = "no", .cut = false};
  page.batch.ended = {ended};
  page.batch.lost = 9;
  return page;
}

TEST(FeedPage, ComesBackWhole) {
  const std::string bytes = write_feed_page(full_page());
  const auto read = read_feed_page(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->number, 7U);
  EXPECT_EQ(read->until, at(900));
  EXPECT_EQ(read->totals.samples_refused, 7U);
  EXPECT_EQ(read->batch.first_tokens.front().ttft, milliseconds(4));
  EXPECT_EQ(read->batch.chunks.back().at, at(30));
  EXPECT_EQ(read->batch.gaps_ms, full_page().batch.gaps_ms);
  EXPECT_EQ(read->batch.started.front().added.front().text, "tell\nme \xE2\x82\xAC");
  EXPECT_TRUE(read->batch.started.front().added.front().cut);
  EXPECT_EQ(read->batch.started.back().conversation, ConversationId(13));
  EXPECT_EQ(read->batch.ended.front().sample.worker, "w-1");
  EXPECT_EQ(read->batch.ended.front().answer.text, "no");
  EXPECT_EQ(read->batch.lost, 9U);
  EXPECT_EQ(write_feed_page(*read), bytes);
}

TEST(FeedPage, WhatIsCutOffOrGoesOnIsRefused) {
  const std::string bytes = write_feed_page(full_page());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(read_feed_page(std::string_view(bytes).substr(0, size)).has_value()) << size;
  }
  EXPECT_THAT(read_feed_page(bytes + "x").error().message, HasSubstr("goes on"));
}

TEST(FeedOutbox, TheSameQuestionGivesTheSamePage) {
  FeedOutbox outbox;
  int made = 0;
  const auto make = [&made] {
    ++made;
    return full_page();
  };
  const std::string first = outbox.page_after(0, make).value();
  EXPECT_EQ(outbox.page_after(0, make).value(), first);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(read_feed_page(first)->number, 1U);
  EXPECT_EQ(read_feed_page(outbox.page_after(1, make).value())->number, 2U);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(outbox.page_after(0, make).error().code, ErrorCode::kInvalidArgument) << "it is gone";
  EXPECT_EQ(outbox.page_after(9, make).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvist::loadgen::feed_page_test
