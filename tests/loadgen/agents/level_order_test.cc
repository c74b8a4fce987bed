#include "kvist/loadgen/agents/level_order.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>

namespace kvist::loadgen::level_order_test {
namespace {

using testing::HasSubstr;

LevelOrder order() {
  LevelOrder order;
  order.target = "http://10.0.0.9:8000";
  order.model = "m";
  order.workload.turns_max = 7;
  order.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  order.workload.follow_ups = {"go on", "\"why\": #1"};
  order.texts = {.opening = workload::opening_of(3), .frozen_replies = true};
  order.level = 24;
  order.seed = ~std::uint64_t{0};
  return order;
}

TEST(LevelOrder, ComesBackWhole) {
  const auto read = parse_level_order(level_order_json(order()));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->target, order().target);
  EXPECT_EQ((*read)->model, order().model);
  EXPECT_EQ((*read)->workload, order().workload);
  EXPECT_EQ((*read)->texts.opening, order().texts.opening);
  EXPECT_TRUE((*read)->texts.frozen_replies);
  EXPECT_EQ((*read)->level, order().level);
  EXPECT_EQ((*read)->seed, order().seed);
}

TEST(LevelOrder, OptionsOfACommandAreNoLevel) {
  const auto read = parse_level_order(R"({"target":"http://h:1","model":"m"})");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_FALSE(read->has_value());
}

std::string error_of(const std::string& from, const std::string& to) {
  std::string json = level_order_json(order());
  const std::size_t found = json.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  const auto read = parse_level_order(json.replace(found, from.size(), to));
  return read ? "none" : read.error().message;
}

TEST(LevelOrder, WhatIsWrongIsRefusedWithItsPlace) {
  EXPECT_THAT(error_of("\"level\":24", "\"level\":0"), HasSubstr("level"));
  EXPECT_THAT(error_of("\"opening\":\"[", "\"opening\":\"[[["), HasSubstr("opening"));
  EXPECT_THAT(error_of("\"model\":\"m\"", "\"model\":\"m\",\"shell\":\"x\""), HasSubstr("shell"));
  EXPECT_THAT(error_of("turns_max: 7", "turns_max: -7"), HasSubstr("workload of the order"));
  EXPECT_THAT(error_of("}}", "},\"more\":1}"), HasSubstr("more"));
}

}  // namespace
}  // namespace kvist::loadgen::level_order_test
