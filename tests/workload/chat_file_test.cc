#include "kvist/workload/chat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "kvist/workload/limited_source.h"
#include "kvist/workload/load_driver.h"

namespace kvist::workload::chat_file_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kShareGpt = R"([
  {"id": "a", "conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "0123456789"},
                                {"from": "human", "value": "two"}, {"from": "gpt", "value": "01234"}]},
  {"id": "b", "conversations": [{"from": "gpt", "value": "nobody asked"}]},
  {"id": "c", "conversations": [{"from": "system", "value": "be brief"}, {"from": "human", "value": "three"}]}])";

constexpr const char* kLines = R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}

{"prompt": "p", "max_tokens": 7}
)";

TEST(ChatFile, ReadsShareGpt) {
  const auto chats = read_chats(kShareGpt, "f", {.characters_per_token = 2.5});
  ASSERT_TRUE(chats.has_value()) << chats.error().message;
  ASSERT_THAT(*chats, SizeIs(2));
  ASSERT_THAT(chats->at(0).turns, SizeIs(2));
  EXPECT_EQ(chats->at(0).turns[1].message, "two");
  EXPECT_EQ(chats->at(0).turns[0].max_tokens, 4U);  // ten characters at 2.5 a token
  EXPECT_EQ(chats->at(0).turns[1].max_tokens, 2U);
  EXPECT_EQ(chats->at(1).system, "be brief");
  EXPECT_EQ(chats->at(1).turns[0].max_tokens, 0U);  // no reply in the file: the workload's limit
  EXPECT_EQ(read_chats(kShareGpt, "f", {})->at(0).turns[0].max_tokens, 0U);
}

TEST(ChatFile, ReadsLinesOfChatsAndPrompts) {
  const auto chats = read_chats(kLines, "f", {});
  ASSERT_TRUE(chats.has_value()) << chats.error().message;
  ASSERT_THAT(*chats, SizeIs(2));
  EXPECT_EQ(chats->at(0).system, "s");
  EXPECT_EQ(chats->at(1).turns[0].message, "p");
  EXPECT_EQ(chats->at(1).turns[0].max_tokens, 7U);
}

TEST(ChatFile, KnowsWhatAFileIsByItsBeginning) {
  EXPECT_EQ(dataset_kind(" \n[{", "f").value(), DatasetKind::kShareGpt);
  EXPECT_EQ(dataset_kind("{\"prompt\": \"\"}\n", "f").value(), DatasetKind::kChats);
  EXPECT_EQ(dataset_kind("{\"timestamp\": 0, \"input_length\": 3}\n", "f").value(), DatasetKind::kTrace);
  EXPECT_EQ(dataset_kind("{\"kvist_record\": 1}\n", "f").value(), DatasetKind::kTrace);
  EXPECT_THAT(dataset_kind("id,prompt\n", "f").error().message, HasSubstr("f: begins with \"id,prompt"));
}

TEST(ChatFile, ErrorsNameThePlace) {
  EXPECT_THAT(read_chats("{\"prompt\": \"a\"}\n{\"prompt\": 3}\n", "f.jsonl", {}).error().message,
              HasSubstr("f.jsonl:2"));
  EXPECT_THAT(read_chats("[{\"conversations\": 3}]", "f", {}).error().message, HasSubstr("conversations"));
  EXPECT_THAT(read_chats("[]", "f", {}).error().message, HasSubstr("no conversation with a message of a user"));
  EXPECT_FALSE(load_chats("/nowhere/f", {}).has_value());
}

TEST(ChatFile, WhatExceedsABoundIsRefusedWithItsPlace) {
  const auto refused = [](std::string_view text, const ChatLimits& limits) {
    const auto chats = read_chats(text, "f", {}, limits);
    if (chats) return std::string("read");
    EXPECT_EQ(chats.error().code, ErrorCode::kTooLarge);
    return chats.error().message;
  };
  EXPECT_THAT(refused(kLines, {.file_bytes = 50}), HasSubstr("f: more than 50 bytes; cut the file"));
  EXPECT_THAT(refused(kShareGpt, {.file_bytes = 50}), HasSubstr("f: more than 50 bytes; cut the file"));
  EXPECT_EQ(refused(kLines, {.file_bytes = std::string_view(kLines).size()}), "read");
  EXPECT_THAT(refused(kLines, {.line_bytes = 40}), HasSubstr("f:1: longer than 40 bytes"));
  EXPECT_THAT(refused(kLines, {.conversations = 1}), HasSubstr("f:3: more than 1 conversations"));
  EXPECT_THAT(refused(kShareGpt, {.conversations = 1}), HasSubstr("f: [2]: more than 1 conversations"));
  EXPECT_THAT(refused(kShareGpt, {.turns = 1}), HasSubstr("f: [0]: a conversation with 2 messages of the user"));
  EXPECT_THAT(beginning_of(testing::TempDir()).error().message, HasSubstr("a folder; want a file"));
}

TEST(ChatFile, AFileIsReadAsItsText) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "kvist-chats";
  for (const char* text : {kShareGpt, kLines}) {
    std::ofstream(path) << text;
    EXPECT_THAT(load_chats(path.string(), {}).value(), SizeIs(2));
  }
  std::filesystem::remove(path);
}

std::shared_ptr<const std::vector<ChatScript>> numbered(std::size_t n) {
  std::vector<ChatScript> scripts;
  for (std::size_t i = 0; i < n; ++i) {
    scripts.push_back({.system = "", .turns = {{.message = std::to_string(i), .max_tokens = 0}}});
  }
  return std::make_shared<const std::vector<ChatScript>>(std::move(scripts));
}

TEST(Scripts, AllAreDrivenOncePerRoundInAnOrderOfTheSeeds) {
  for (const std::size_t n : {1UL, 2UL, 7UL, 100UL}) {
    const Dataset one({}, 1, numbered(n));
    const Dataset two({}, 2, numbered(n));
    std::vector<std::string> orders[2];
    for (std::size_t round = 0; round < 2; ++round) {
      std::set<std::string> seen;
      for (std::size_t i = 0; i < n; ++i) seen.insert(one.script_of(ConversationId(round * n + i))->turns[0].message);
      EXPECT_EQ(seen.size(), n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      orders[0].push_back(one.script_of(ConversationId(i))->turns[0].message);
      orders[1].push_back(two.script_of(ConversationId(i))->turns[0].message);
    }
    if (n > 2) {
      EXPECT_NE(orders[0], orders[1]);
    }
  }
}

TEST(Scripts, AreDrivenWithLiveReplies) {
  const auto scripts = std::make_shared<const std::vector<ChatScript>>(
      read_chats(kShareGpt, "f", {.characters_per_token = 2.5}).value());
  spec::WorkloadSpec spec;
  spec.max_tokens = 99;
  LoadDriver driver(spec, 2, 1, TimePoint{}, scripts);
  std::vector<StartTurn> first = driver.poll(TimePoint{} + std::chrono::seconds(1));
  ASSERT_THAT(first, SizeIs(2));
  const StartTurn& long_one = first[0].messages.back().content == "one" ? first[0] : first[1];
  EXPECT_EQ(long_one.max_tokens, 4U);
  const auto next = driver.on_turn_finished(long_one.conversation, "live", TurnOutcome::kSucceeded, TimePoint{});
  ASSERT_FALSE(next.empty());
  ASSERT_THAT(next[0].messages, SizeIs(3));
  EXPECT_EQ(next[0].messages[1].content, "live");
  EXPECT_EQ(next[0].messages[2].content, "two");
}

TEST(LimitedSource, EndsAfterSoManyTurns) {
  spec::WorkloadSpec spec;
  spec.turns_min = spec.turns_max = 3;
  spec.target_rps = 1'000;
  LimitedSource source(std::make_unique<LoadDriver>(spec, 4, 1, TimePoint{}), 6);
  std::vector<StartTurn> turns = source.poll(TimePoint{} + std::chrono::seconds(1));
  EXPECT_THAT(turns, SizeIs(4));
  EXPECT_FALSE(source.stopped());
  std::size_t sent = turns.size();
  while (!turns.empty()) {
    const StartTurn turn = turns.back();
    turns.pop_back();
    for (StartTurn& next : source.on_turn_finished(turn.conversation, "r", TurnOutcome::kSucceeded, TimePoint{})) {
      turns.push_back(std::move(next));
      ++sent;
    }
  }
  EXPECT_EQ(sent, 6U);
  EXPECT_TRUE(source.stopped());
  EXPECT_EQ(source.in_flight(), 0U);
}

TEST(LimitedSource, GivesBackWhatIsTooMuch) {
  spec::WorkloadSpec spec;
  spec.target_rps = 1'000;
  LimitedSource source(std::make_unique<LoadDriver>(spec, 9, 1, TimePoint{}), 2);
  EXPECT_THAT(source.poll(TimePoint{} + std::chrono::seconds(1)), SizeIs(2));
  EXPECT_TRUE(source.stopped());
  EXPECT_EQ(source.in_flight(), 2U);
}

TEST(ChatFile, RepliesAreKeptIfTheyAreAskedFor) {
  const auto chats = read_chats(kShareGpt, "f", {.replies = true});
  EXPECT_EQ(chats->at(0).turns[0].reply, "0123456789");
  EXPECT_EQ(chats->at(0).turns[1].reply, "01234");
  EXPECT_EQ(chats->at(1).turns[0].reply, "");
  EXPECT_EQ(read_chats(kShareGpt, "f", {})->at(0).turns[0].reply, "");
}

}  // namespace
}  // namespace kvist::workload::chat_file_test
