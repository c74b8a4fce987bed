// Conversations as they are listed and shown: turns, texts, bounds.
#include "kvist/dashboard/conversations.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/json.h"

namespace kvist::dashboard::conversations_test {
namespace {

using workload::LoadBatch;
using workload::TurnOutcome;

TimePoint at(double seconds) {
  return TimePoint{} + from_seconds(seconds);
}
const UnixMs kUnixMs = [](TimePoint when) {
  return static_cast<std::int64_t>(to_milliseconds(when.time_since_epoch()));
};

LoadBatch started(std::uint64_t id, std::uint32_t turn, double when, std::string text = "hello") {
  LoadBatch batch;
  batch.started.push_back({.at = at(when),
                           .conversation = ConversationId(id),
                           .turn = turn,
                           .added = {{.role = "user", .text = std::move(text)}}});
  return batch;
}
LoadBatch ended(std::uint64_t id, std::uint32_t turn, double sent, double first, double end, std::string worker = "w0",
                TurnOutcome outcome = TurnOutcome::kSucceeded) {
  LoadBatch batch;
  workload::TurnSample sample;
  sample.conversation = ConversationId(id);
  sample.turn = turn;
  sample.outcome = outcome;
  sample.worker = std::move(worker);
  sample.sent = at(sent);
  sample.first_token = at(first);
  sample.last_token = at(end);
  sample.ended = at(end);
  sample.prompt_tokens = 100;
  sample.cached_tokens = 64;
  sample.completion_tokens = 11;
  batch.ended.push_back({.sample = std::move(sample), .answer = {.role = "assistant", .text = "<b>hi</b>"}});
  return batch;
}

TEST(Conversations, ATurnIsShownWithWhatWasMeasured) {
  Conversations conversations;
  conversations.begin_run();
  conversations.add(started(3, 0, 10));
  conversations.add(ended(3, 0, 10, 10.5, 12.5));
  conversations.add(started(3, 1, 13, "and then?"));
  const auto shown = conversations.json("1-3", at(14), kUnixMs);
  ASSERT_TRUE(shown);
  JsonDocument document;
  const auto root = document.parse_object(*shown);
  ASSERT_TRUE(root) << *shown;
  EXPECT_EQ(*root->require_string("status"), "active");
  EXPECT_EQ(*root->require_unsigned("turns", 0, 9), 2U);
  EXPECT_EQ(*root->require_unsigned("turns_done", 0, 9), 1U);
  EXPECT_EQ(*root->require_double("duration_ms", 0, 1e6), 4'000);
  EXPECT_EQ(*root->require_double("ttft_first_ms", 0, 1e6), 500);
  const auto turns = root->require_array("turns_list");
  ASSERT_TRUE(turns);
  ASSERT_EQ(turns->size(), 2U);
  const auto first = (*turns->begin()).as_object();
  EXPECT_EQ(*first->require_string("worker"), "w0");
  EXPECT_EQ(*first->require_double("ttft_ms", 0, 1e6), 500);
  EXPECT_EQ(*first->require_double("latency_ms", 0, 1e6), 2'500);
  EXPECT_EQ(*first->require_double("tpot_ms", 0, 1e6), 200);
  EXPECT_EQ(*first->require_unsigned("cached_tokens", 0, 1'000), 64U);
  EXPECT_EQ(*first->require_string("answer"), "<b>hi</b>") << "a text stays a text";
  const auto second = (*++turns->begin()).as_object();
  EXPECT_EQ(*second->require_string("status"), "active");
  EXPECT_TRUE(second->require_or_null("ttft_ms")->is_null());
  EXPECT_TRUE(second->require_or_null("answer")->is_null());
}

TEST(Conversations, CachedTokensThatNobodyToldAreUnknown) {
  Conversations conversations;
  conversations.begin_run();
  const auto cached_of = [&](std::uint64_t id) {
    JsonDocument document;
    const auto text = conversations.json("1-" + std::to_string(id), at(9), kUnixMs);
    const auto root = document.parse_object(*text);
    return (*root->require_array("turns_list")->begin()).as_object()->require_or_null("cached_tokens")->is_null();
  };
  for (const std::uint64_t id : {1, 2}) {
    conversations.add(started(id, 0, 1));
    LoadBatch end = ended(id, 0, 1, 2, 3, "");
    end.ended[0].sample.cached_tokens = 0;
    end.ended[0].sample.reports_cached = id == 2;
    conversations.add(end);
  }
  EXPECT_TRUE(cached_of(1));
  EXPECT_FALSE(cached_of(2)) << "told: none";
}

TEST(Conversations, TheNewestIsListedFirstAndAFailureHasItsReason) {
  Conversations conversations;
  conversations.begin_run();
  conversations.add(started(1, 0, 1));
  conversations.add(started(2, 0, 2));
  LoadBatch failed = ended(2, 0, 2, 2, 3, "", TurnOutcome::kFailed);
  failed.ended[0].sample.error = "status 503";
  conversations.add(failed);
  JsonDocument document;
  const std::string text = conversations.list_json(at(5), kUnixMs);
  const auto root = document.parse_object(text);
  ASSERT_TRUE(root) << text;
  const auto list = root->require_array("conversations");
  ASSERT_EQ(list->size(), 2U);
  const auto newest = (*list->begin()).as_object();
  EXPECT_EQ(*newest->require_string("conversation"), "1-2");
  EXPECT_EQ(*newest->require_string("status"), "failed");
  EXPECT_EQ(*newest->require_string("error"), "status 503");
}

TEST(Conversations, TheSameNumberOfAnotherLoadIsAnotherConversation) {
  Conversations conversations;
  conversations.begin_run();
  conversations.add(started(1, 0, 1));
  conversations.begin_run();
  conversations.add(started(1, 0, 9));
  EXPECT_EQ(conversations.size(), 2U);
  EXPECT_TRUE(conversations.json("1-1", at(9), kUnixMs)->contains(R"("status":"abandoned")"));
  EXPECT_TRUE(conversations.json("2-1", at(9), kUnixMs)->contains(R"("status":"active")"));
}

TEST(Conversations, MemoryIsBoundedInConversationsAndTexts) {
  Conversations conversations({.conversations = 50, .turns = 4, .text_bytes = 10'000});
  conversations.begin_run();
  for (std::uint64_t id = 0; id < 500; ++id) {
    for (std::uint32_t turn = 0; turn < 10; ++turn) {
      conversations.add(started(id, turn, static_cast<double>(id), std::string(300, 'x')));
      conversations.add(ended(id, turn, static_cast<double>(id), static_cast<double>(id), static_cast<double>(id)));
      ASSERT_LE(conversations.text_bytes(), 10'000U);
    }
  }
  EXPECT_EQ(conversations.size(), 50U);
  EXPECT_FALSE(conversations.json("1-449", at(1), kUnixMs)) << "given up for newer ones";
  EXPECT_TRUE(conversations.json("1-450", at(1), kUnixMs)->contains(R"("messages_kept":false)"));
  EXPECT_TRUE(conversations.json("1-499", at(1), kUnixMs)->contains(R"("messages_kept":true)"));
}

TEST(Conversations, WhatIsNoIdIsNotFound) {
  Conversations conversations;
  for (const char* const key : {"", "-", "1", "1-", "x-1", "1-1x", "99999999999999999999-1", "1-1"})
    EXPECT_FALSE(conversations.json(key, at(1), kUnixMs)) << key;
}

}  // namespace
}  // namespace kvist::dashboard::conversations_test
