#include "kvist/spec/deployment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/parsed.h"

namespace kvist::spec::routing_spec_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(RoutingSpecTest, WhatModeKvIsToldHasBounds) {
  const auto message_of = [](const std::string& yaml) { return message(read_gateway(parsed(yaml))); };
  EXPECT_THAT(message_of("tier_weights: {cpu: 1.5}\n"), StartsWith("test.yaml:1: tier_weights.cpu: "));
  EXPECT_THAT(message_of("tier_weights: {gpu: 1}\n"), HasSubstr("gpu"));
  EXPECT_THAT(message_of("warm_up: {until_answers: 0}\n"), StartsWith("test.yaml:1: warm_up.until_answers: "));
  EXPECT_THAT(message_of("session_affinity: firm\n"), HasSubstr("expected off or soft or hard"));
  EXPECT_THAT(message_of("session_affinity: {ttl: 5 s}\n"), HasSubstr("form"));
  EXPECT_THAT(message_of("session_affinity: {form: soft, ttl: 5 ms}\n"), HasSubstr("session_affinity.ttl"));
  EXPECT_THAT(message_of("objective: {ttft: 0}\n"), StartsWith("test.yaml:1: objective.ttft: "));
  EXPECT_THAT(message_of("objective: {tpot: 2}\n"), HasSubstr("tpot"));
  const auto hard = read_gateway(parsed("session_affinity: hard\n"));
  ASSERT_TRUE(hard);
  EXPECT_EQ(hard->session_affinity.form, SessionAffinitySpec::Form::kHard);
  EXPECT_EQ(hard->session_affinity.ttl, std::chrono::minutes(10));
}
}  // namespace
}  // namespace kvist::spec::routing_spec_test
