#include "kvist/workload/conversation.h"

#include <gtest/gtest.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <algorithm>
#include <set>

#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/workload/load_driver.h"

namespace kvist::workload::conversation_test {
namespace {

spec::WorkloadSpec small_workload() {
  spec::WorkloadSpec spec;
  spec.starter_tokens_min = 100;
  spec.starter_tokens_max = 200;
  return spec;
}

/// All texts and seeds of a conversation whose replies are `reply`.
std::vector<std::string> script(const spec::WorkloadSpec& spec, const Dataset& dataset, std::uint64_t seed,
                                std::uint64_t id, const std::string& reply) {
  Conversation conversation(spec, dataset, seed, ConversationId(id));
  std::vector<std::string> lines;
  do {
    lines.push_back(conversation.messages().back().content);
    lines.push_back(std::to_string(conversation.answer_seed()));
  } while (conversation.advance(reply));
  return lines;
}

TEST(Dataset, HasStartersOfLengthsInTheRange) {
  spec::WorkloadSpec spec = small_workload();
  spec.starters = 200;
  const Dataset dataset(spec, 7);
  ASSERT_EQ(dataset.size(), 200U);
  std::size_t shortest = 1000;
  std::size_t longest = 0;
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    shortest = std::min(shortest, dataset.starter(i).size());
    longest = std::max(longest, dataset.starter(i).size());
    distinct.insert(dataset.starter(i));
  }
  EXPECT_GE(shortest, 100U);
  EXPECT_LE(longest, 200U);
  EXPECT_LT(shortest, 110U);  // the whole range is used
  EXPECT_GT(longest, 190U);
  EXPECT_EQ(distinct.size(), 200U);
}

TEST(Dataset, DependsOnTheSeedAndMoreStartersKeepTheFirst) {
  spec::WorkloadSpec spec = small_workload();
  const Dataset ten(spec, 1);
  const Dataset again(spec, 1);
  const Dataset other_seed(spec, 2);
  spec.starters = 12;
  const Dataset twelve(spec, 1);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(ten.starter(i), again.starter(i));
    EXPECT_EQ(ten.starter(i), twelve.starter(i));
    EXPECT_NE(ten.starter(i), other_seed.starter(i));
  }
}

TEST(Conversation, KeepsTheLiveRepliesInOrder) {
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 3;
  const Dataset dataset(spec, 1);
  Conversation conversation(spec, dataset, 1, ConversationId(4));
  ASSERT_EQ(conversation.turns(), 3U);
  ASSERT_EQ(conversation.messages().size(), 1U);
  EXPECT_EQ(conversation.messages()[0].role, "user");
  const std::string starter = conversation.messages()[0].content;

  ASSERT_TRUE(conversation.advance("first reply"));
  ASSERT_TRUE(conversation.advance("second reply"));
  EXPECT_EQ(conversation.turn(), 2U);
  const auto& messages = conversation.messages();
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0].content, starter);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content, "first reply");
  EXPECT_EQ(messages[2].role, "user");
  EXPECT_EQ(messages[3].role, "assistant");
  EXPECT_EQ(messages[3].content, "second reply");
  EXPECT_EQ(messages[4].role, "user");
  EXPECT_NE(messages[2].content, messages[4].content);
  for (const std::size_t i : {2UL, 4UL}) {
    EXPECT_GE(messages[i].content.size(), spec.follow_up_tokens_min);
    EXPECT_LE(messages[i].content.size(), spec.follow_up_tokens_max);
  }
  EXPECT_FALSE(conversation.advance("third reply"));
}

TEST(Conversation, IsTheSameForBothArmsWhateverTheRepliesAre) {
  const spec::WorkloadSpec spec = small_workload();
  const Dataset dataset(spec, 9);
  for (std::uint64_t id = 0; id < 50; ++id) {
    EXPECT_EQ(script(spec, dataset, 9, id, "short"), script(spec, dataset, 9, id, "quite another reply"));
  }
}

TEST(Conversation, UsesEveryTurnCountAndStarterAndEachAnswerHasASeedOfItsOwn) {
  const spec::WorkloadSpec spec = small_workload();
  const Dataset dataset(spec, 5);
  std::set<std::uint32_t> turn_counts;
  std::set<std::string> starters;
  std::set<std::string> seeds;
  std::set<std::string> follow_ups;
  std::size_t turns = 0;
  for (std::uint64_t id = 0; id < 300; ++id) {
    const Conversation conversation(spec, dataset, 5, ConversationId(id));
    turn_counts.insert(conversation.turns());
    starters.insert(conversation.messages()[0].content);
    const std::vector<std::string> lines = script(spec, dataset, 5, id, "");
    for (std::size_t i = 0; i < lines.size(); i += 2) {
      if (i > 0) follow_ups.insert(lines[i]);
      seeds.insert(lines[i + 1]);
      ++turns;
    }
  }
  EXPECT_EQ(turn_counts, (std::set<std::uint32_t>{3, 4, 5}));
  EXPECT_EQ(starters.size(), 10U);
  EXPECT_EQ(seeds.size(), turns);                          // no two turns ask for the same answer
  EXPECT_GT(follow_ups.size(), (turns - 300) * 95 / 100);  // the shortest texts may be equal by chance
}

TEST(Conversation, AnswerSeedsFitIntoADouble) {
  const spec::WorkloadSpec spec = small_workload();
  const Dataset dataset(spec, 5);
  for (std::uint64_t id = 0; id < 100; ++id) {
    EXPECT_LT(Conversation(spec, dataset, 5, ConversationId(id)).answer_seed(), std::uint64_t{1} << 53);
  }
}

TEST(PrefixGroups, ConversationsOfAGroupBeginAlikeAndGroupsAreSkewed) {
  spec::WorkloadSpec spec;
  spec.starters = 0;
  spec.starter_tokens_min = spec.starter_tokens_max = 50;
  spec.prefix_groups = 4;
  spec.prefix_tokens = 200;
  spec.prefix_skew = 1;
  ASSERT_TRUE(check_workload(spec).has_value());
  const Dataset dataset(spec, 3);
  std::map<std::string, std::size_t> groups;
  std::set<std::string> own;
  for (std::uint64_t id = 0; id < 2'000; ++id) {
    const Conversation conversation(spec, dataset, 3, ConversationId(id));
    const std::string& message = conversation.messages().front().content;
    ASSERT_EQ(message.size(), 250U);
    ++groups[message.substr(0, 200)];
    own.insert(message.substr(200));
  }
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(own.size(), 2'000U);
  std::vector<double> shares;
  for (const auto& [prefix, count] : groups) shares.push_back(static_cast<double>(count) / 2'000);
  std::ranges::sort(shares, std::ranges::greater{});
  const double sum = 1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0;
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(shares[k], 1 / ((static_cast<double>(k) + 1) * sum), 0.04);
}

TEST(PrefixGroups, LeaveOtherTextsAsTheyWere) {
  spec::WorkloadSpec spec;
  spec.starters = 0;
  spec::WorkloadSpec grouped = spec;
  grouped.prefix_groups = 2;
  grouped.prefix_tokens = 10;
  const Dataset plain_texts(spec, 3);
  const Dataset grouped_texts(grouped, 3);
  const Conversation plain(spec, plain_texts, 3, ConversationId(7));
  const Conversation in_group(grouped, grouped_texts, 3, ConversationId(7));
  EXPECT_EQ(in_group.messages().front().content.substr(10), plain.messages().front().content);
  grouped.prefix_tokens = 0;
  EXPECT_FALSE(check_workload(grouped).has_value());
  grouped.prefix_tokens = 1'000'000;
  grouped.prefix_groups = 1'000;
  EXPECT_FALSE(check_workload(grouped).has_value());
}

TEST(Conversation, TurnsAndLengthsFollowTheirLaws) {
  spec::WorkloadSpec spec = small_workload();
  spec.starters = 0;
  spec.turns_law = {.kind = spec::CountLawKind::kGeometric, .mean = 3};
  spec.turns_min = 1;
  spec.turns_max = 60;
  spec.starter_law = {.kind = spec::CountLawKind::kList, .shares = {{.value = 100}, {.value = 200}}};
  spec.max_tokens_min = 10;
  spec.max_tokens = 90;
  spec.answer_law = {.kind = spec::CountLawKind::kList, .shares = {{.value = 10}, {.value = 90}}};
  const Dataset none(spec, 1);
  double turns = 0;
  std::set<std::size_t> lengths;
  std::set<std::uint32_t> answers;
  for (std::uint64_t id = 0; id < 4'000; ++id) {
    const Conversation conversation(spec, none, 1, ConversationId(id));
    turns += conversation.turns();
    lengths.insert(conversation.messages()[0].content.size());
    answers.insert(conversation.max_tokens());
  }
  EXPECT_NEAR(turns / 4'000, 3, 0.15);
  EXPECT_EQ(lengths, (std::set<std::size_t>{100, 200}));
  EXPECT_EQ(answers, (std::set<std::uint32_t>{10, 90}));
}

TEST(Conversation, FollowUpsOfAListAreDrawnByTheSeedAlone) {
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 6;
  spec.follow_ups = {"Why?", "Tell me more.", "And then?"};
  const Dataset dataset(spec, 3);
  std::set<std::string> said;
  for (std::uint64_t id = 0; id < 20; ++id) {
    const auto lines = script(spec, dataset, 3, id, "one reply");
    EXPECT_EQ(lines, script(spec, dataset, 3, id, "another"));
    for (std::size_t i = 2; i < lines.size(); i += 2) said.insert(lines[i]);
  }
  EXPECT_EQ(said, (std::set<std::string>{"Why?", "Tell me more.", "And then?"}));
}

TEST(Conversation, RecordedRepliesDoNotDependOnWhatWasAnswered) {
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 2;
  spec.max_tokens = 33;
  const auto history = [](Conversation conversation, const std::string& reply) {
    EXPECT_TRUE(conversation.advance(reply));
    return conversation.messages().at(1).content;
  };
  const Dataset dataset(spec, 3);
  EXPECT_EQ(history({spec, dataset, 3, ConversationId(1)}, "live"), "live");
  spec.replies = spec::Replies::kRecorded;
  const std::string made = history({spec, dataset, 3, ConversationId(1)}, "live");
  EXPECT_EQ(made.size(), 33U);
  EXPECT_EQ(made, history({spec, dataset, 3, ConversationId(1)}, "other"));
  EXPECT_NE(made, history({spec, dataset, 3, ConversationId(2)}, "live"));
  const auto scripts = std::make_shared<const std::vector<ChatScript>>(
      std::vector<ChatScript>{{.system = "", .turns = {{.message = "a", .reply = "said"}, {.message = "b"}}},
                              {.system = "", .turns = {{.message = "c"}, {.message = "d"}}}});
  const Dataset chats(spec, 3, scripts);
  for (std::uint64_t id = 0; id < 2; ++id) {
    const Conversation conversation(spec, chats, 3, ConversationId(id));
    // What the data set does not have stays live.
    EXPECT_EQ(history(conversation, "live"), conversation.messages()[0].content == "a" ? "said" : "live");
  }
}

TEST(Conversation, LengthsAreInTheTokensOfATokenizer) {
  const auto tokenizer = std::shared_ptr<const tokenizer::Tokenizer>(
      tokenizer::load_tokenizer(std::string(KVIST_SOURCE_DIR) + "/tests/golden/vllm/llama3/tokenizer.json").value());
  const auto prose = std::make_shared<const text::TokenProse>(text::TokenProse::create(tokenizer).value());
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 2;
  spec.starter_tokens_min = spec.starter_tokens_max = 300;
  spec.follow_up_tokens_min = spec.follow_up_tokens_max = 21;
  spec.max_tokens = 44;
  spec.replies = spec::Replies::kRecorded;
  for (const std::uint32_t starters : {0U, 4U}) {
    for (const std::uint32_t groups : {0U, 3U}) {
      spec.starters = starters;
      spec.prefix_groups = groups;
      spec.prefix_tokens = groups == 0 ? 0 : 100;
      const Dataset dataset(spec, 5, nullptr, prose);
      for (std::uint64_t id = 0; id < 20; ++id) {
        Conversation conversation(spec, dataset, 5, ConversationId(id));
        EXPECT_TRUE(conversation.advance("live"));
        EXPECT_EQ(prose->count(conversation.messages()[0].content), 300 + spec.prefix_tokens);
        EXPECT_EQ(prose->count(conversation.messages()[1].content), 44U);
        EXPECT_EQ(prose->count(conversation.messages()[2].content), 21U);
      }
    }
  }
}

}  // namespace
}  // namespace kvist::workload::conversation_test
