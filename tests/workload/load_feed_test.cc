// What a load tells somebody who watches: batches, texts cut to their bound, and bounds for when nobody takes them.
#include "kvist/workload/load_feed.h"

#include <gtest/gtest.h>

#include <string>

namespace kvist::workload::load_feed_test {
namespace {

TimePoint at(double seconds) {
  return TimePoint{} + from_seconds(seconds);
}

StartTurn turn(std::uint64_t conversation, std::uint32_t number, std::vector<std::string> texts) {
  StartTurn made{.conversation = ConversationId(conversation), .turn = number, .messages = {}, .intended = at(1)};
  for (std::size_t i = 0; i < texts.size(); ++i)
    made.messages.push_back({.role = i % 2 == 0 ? "user" : "assistant", .content = texts[i]});
  return made;
}

TEST(LoadFeed, ABatchHasWhatHappenedSinceTheOneBefore) {
  LoadFeed feed;
  feed.on_turn_started(at(1), turn(3, 0, {"hello"}));
  feed.on_content(at(1.2), 1, from_milliseconds(200), {});
  const float gaps[] = {10, 20};
  feed.on_content(at(1.205), 2, std::nullopt, gaps);
  feed.on_content(at(1.3), 1, std::nullopt, {});
  TurnSample sample;
  sample.conversation = ConversationId(3);
  sample.ended = at(1.3);
  sample.gaps_ms = {10, 20};
  sample.worker = "w0";
  feed.on_turn_finished(sample, "an answer");
  const LoadBatch batch = feed.take();
  ASSERT_EQ(batch.started.size(), 1U);
  EXPECT_EQ(batch.started[0].added.at(0).text, "hello");
  EXPECT_EQ(batch.conversation_starts.size(), 1U);
  ASSERT_EQ(batch.first_tokens.size(), 1U);
  EXPECT_EQ(batch.first_tokens[0].ttft, from_milliseconds(200));
  ASSERT_EQ(batch.chunks.size(), 2U) << "what comes within 10 ms is one entry";
  EXPECT_EQ(batch.chunks[0].count, 3U);
  EXPECT_EQ(batch.gaps_ms, (std::vector<float>{10, 20}));
  ASSERT_EQ(batch.ended.size(), 1U);
  EXPECT_EQ(batch.ended[0].sample.worker, "w0");
  EXPECT_TRUE(batch.ended[0].sample.gaps_ms.empty()) << "they are in the batch already";
  EXPECT_EQ(batch.ended[0].answer.text, "an answer");
  EXPECT_EQ(batch.lost, 0U);
  const LoadBatch next = feed.take();
  EXPECT_TRUE(next.started.empty() && next.ended.empty() && next.chunks.empty() && next.gaps_ms.empty());
}

TEST(LoadFeed, ALaterTurnAddsWhatTheUserSays) {
  LoadFeed feed;
  feed.on_turn_started(at(1), turn(3, 1, {"hello", "hi", "and then?"}));
  const LoadBatch batch = feed.take();
  ASSERT_EQ(batch.started[0].added.size(), 1U);
  EXPECT_EQ(batch.started[0].added[0].text, "and then?");
  EXPECT_TRUE(batch.conversation_starts.empty());
}

TEST(LoadFeed, ALongTextIsCutBetweenCharacters) {
  LoadFeed feed({.message_bytes = 5});
  feed.on_turn_started(at(1), turn(3, 0, {"abcd\xc3\xa4"}));
  const LoadBatch batch = feed.take();
  EXPECT_EQ(batch.started[0].added[0].text, "abcd");
  EXPECT_TRUE(batch.started[0].added[0].cut);
}

TEST(LoadFeed, WhenNobodyTakesBatchesMemoryIsBoundedAndWhatIsLostIsCounted) {
  LoadFeed feed({.entries = 10, .gaps = 10, .text_bytes = 100, .message_bytes = 50});
  const float gaps[] = {1, 2, 3, 4};
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    feed.on_turn_started(at(static_cast<double>(i)), turn(i, 0, {std::string(200, 'x')}));
    feed.on_content(at(static_cast<double>(i)), 1, from_milliseconds(1), gaps);
    feed.on_turn_finished({}, std::string(200, 'y'));
  }
  const LoadBatch batch = feed.take();
  EXPECT_EQ(batch.started.size(), 10U);
  EXPECT_EQ(batch.ended.size(), 10U);
  EXPECT_EQ(batch.first_tokens.size(), 10U);
  EXPECT_EQ(batch.gaps_ms.size(), 8U);
  EXPECT_EQ(batch.lost, (5 * 990U) + 998U);
  std::size_t bytes = 0;
  for (const auto& started : batch.started)
    for (const auto& message : started.added) bytes += message.text.size();
  for (const auto& ended : batch.ended) bytes += ended.answer.text.size();
  EXPECT_LE(bytes, 150U);
  EXPECT_EQ(feed.take().lost, 0U);
}

}  // namespace
}  // namespace kvist::workload::load_feed_test
