#include "kvist/spec/count_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/spec/workload.h"
#include "spec/parsed.h"

namespace kvist::spec::count_law_test {
namespace {

using ::testing::HasSubstr;

TEST(CountLaw, IsReadAndWrittenBack) {
  for (const char* text :
       {"7", "3-5", "geometric:4:1-20", "normal:512/100:16-4096", "lognormal:512.5/300:1-9000", "list:1*5,2*3,8*0.5"}) {
    const Result<BoundedCount> count = parse_count(text, 1, 10'000);
    ASSERT_TRUE(count.has_value()) << count.error().message;
    EXPECT_EQ(text_of(*count), text);
    EXPECT_EQ(parse_count(text_of(*count), 1, 10'000), *count);
  }
  EXPECT_EQ(parse_count("geometric:4", 1, 1'000)->high, 80U);
  EXPECT_EQ(parse_count("normal:500/50", 16, 1'000)->low, 16U);
  EXPECT_EQ(parse_count("normal:500/50", 16, 700)->high, 700U);
  EXPECT_EQ(parse_count("list:9,2", 1, 10)->low, 2U);
}

TEST(CountLaw, WhatIsNoLawIsRefused) {
  for (const char* text : {"",
                           "-",
                           "0",
                           "5-3",
                           "x",
                           "1-",
                           "geometric",
                           "geometric:",
                           "geometric:0.5",
                           "geometric:nan",
                           "geometric:4/2",
                           "geometric:4:9-20",
                           "normal:5",
                           "normal:5/0",
                           "normal:5/-1",
                           "normal:inf/1",
                           "lognormal:5/1:1-2000",
                           "list:",
                           "list:0",
                           "list:1*0",
                           "list:1*-1",
                           "list:1*nan",
                           "list:1,,2",
                           "list:2000",
                           "zipf:3",
                           "4:1-20"}) {
    EXPECT_FALSE(parse_count(text, 1, 1'000).has_value()) << text;
  }
  EXPECT_THAT(parse_count("x", 1, 50).error().message, HasSubstr("\"x\"; want 1 to 50, a range like 100-900"));
}

TEST(CountLaw, ScaledKeepsItsShape) {
  EXPECT_EQ(text_of(scaled(parse_count("lognormal:100/50:20-400", 1, 1'000).value(), 4.5)),
            "lognormal:450/225:90-1800");
  EXPECT_EQ(text_of(scaled(parse_count("list:1*2,10", 1, 1'000).value(), 4)), "list:4*2,40*1");
  EXPECT_EQ(text_of(scaled(parse_count("3-5", 1, 1'000).value(), 0.01)), "1");
}

Result<WorkloadSpec> workload_of(const std::string& yaml) {
  KVIST_TRY(const YamlNode node, YamlNode::parse(yaml, "w.yaml"));
  return read_workload(node);
}

TEST(Workload, LawsFollowUpsAndRepliesAreKeys) {
  const auto workload = workload_of(
      "turns: geometric:4:2-9\nstarter_tokens: lognormal:512/300:16-4096\nanswer_tokens: \"list:64*3,512\"\n"
      "follow_up_tokens: 30\nfollow_ups: [\"Why?\", \"Tell me: more\"]\nreplies: recorded\n");
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  EXPECT_EQ(workload->turns_max, 9U);
  EXPECT_EQ(workload->max_tokens, 512U);
  EXPECT_EQ(workload->max_tokens_min, 64U);
  EXPECT_EQ(workload->follow_up_tokens_min, 30U);
  EXPECT_EQ(workload->follow_ups.at(1), "Tell me: more");
  EXPECT_EQ(workload->replies, Replies::kRecorded);
  EXPECT_EQ(workload_of(to_yaml(*workload)), *workload);
  EXPECT_THAT(workload_of("turns: 4\nturns_min: 2\n").error().message, HasSubstr("turns_min: give one of both"));
  EXPECT_THAT(workload_of("answer_tokens: 4\nmax_tokens: 2\n").error().message, HasSubstr("give one of both"));
  EXPECT_THAT(workload_of("turns: geometric:x\n").error().message, HasSubstr("geometric:MEAN"));
  EXPECT_FALSE(workload_of("follow_ups: [\"\"]\n").has_value());
  EXPECT_FALSE(workload_of("replies: frozen\n").has_value());
}

}  // namespace
}  // namespace kvist::spec::count_law_test
