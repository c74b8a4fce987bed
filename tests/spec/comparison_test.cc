#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/spec/arm.h"
#include "kvist/spec/sweep.h"
#include "spec/parsed.h"

namespace kvist::spec::comparison_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<SweepSpec> sweep_with(const std::string& lines, const std::string& what = "deployment: {workers: {count: 2}}") {
  return read_sweep(parsed(what + "\nlevels: [4]\n" + lines), ".");
}

SweepSpec read(const std::string& lines, const std::string& what = "deployment: {workers: {count: 2}}") {
  auto sweep = sweep_with(lines, what);
  EXPECT_TRUE(sweep.has_value()) << (sweep ? "" : sweep.error().message);
  return sweep.value_or(SweepSpec{});
}

std::string refused(const std::string& lines, const std::string& what = "deployment: {workers: {count: 2}}") {
  return message(sweep_with(lines, what));
}

constexpr const char* kTarget = "target: {url: 'http://h:1', model: m}";

TEST(ArmTest, AnArmNamedAsAModeIsThatModeAndAnyOtherIsNone) {
  EXPECT_EQ(Arm(RoutingMode::kKv).name(), "kv");
  EXPECT_EQ(Arm("kv").mode(), RoutingMode::kKv);
  EXPECT_EQ(Arm("kv"), RoutingMode::kKv);
  EXPECT_FALSE(Arm("kv-aware").mode().has_value()) << "an alias is a name of its own";
  EXPECT_TRUE(parse_arm("a.b_c-1").has_value());
  for (const char* wrong : {"", "a b", ".a", "a/b", "<a>"}) EXPECT_FALSE(parse_arm(wrong).has_value()) << wrong;
  EXPECT_FALSE(parse_arm(std::string(65, 'a')).has_value());
}

TEST(ComparisonSpecTest, ModesAreArmsByTheirNames) {
  const SweepSpec sweep = read("modes: [round_robin, kv]");
  ASSERT_EQ(arms_of(sweep).size(), 2U);
  EXPECT_EQ(arms_of(sweep)[1], (ArmSpec{.arm = RoutingMode::kKv, .mode = RoutingMode::kKv}));
  EXPECT_EQ(sweep.comparison, ComparisonSpec{}) << "one after the other, on new processes";
}

TEST(ComparisonSpecTest, ReadsEveryKey) {
  const SweepSpec sweep = read(
      "arms: [{name: a, mode: random}, {name: b, mode: random}]\n"
      "method: {goodput: {ttft: 600 ms, tpot: 50 ms, latency: 9 s}}\n"
      "comparison: {order: abba, caches: nonce, replies: frozen, stop_when: {metric: tpot_p50_ms, half_width: 2.5}}\n");
  EXPECT_THAT(sweep.modes, IsEmpty());
  EXPECT_THAT(arms_of(sweep), ElementsAre(ArmSpec{.arm = Arm("a"), .mode = RoutingMode::kRandom},
                                          ArmSpec{.arm = Arm("b"), .mode = RoutingMode::kRandom}));
  EXPECT_EQ(sweep.comparison, (ComparisonSpec{.order = ArmOrder::kAbba,
                                              .caches = CacheProof::kNonce,
                                              .replies = ArmReplies::kFrozen,
                                              .stop_when = StopRule{.metric = "tpot_p50_ms", .half_width = 2.5}}));
  EXPECT_EQ(sweep.method.goodput.latency, std::chrono::seconds(9));
}

TEST(ComparisonSpecTest, ATargetNeedsNoDeploymentAndItsUsualProofIsANonce) {
  const SweepSpec sweep = read("arms: [{name: a}, {name: b, url: 'http://h:2/', command: make b}]", kTarget);
  EXPECT_EQ(sweep.target.url, "http://h:1");
  EXPECT_EQ(sweep.comparison.caches, CacheProof::kNonce);
  EXPECT_EQ(sweep.arms[1].url, "http://h:2");
  EXPECT_EQ(sweep.arms[1].command, "make b");
}

TEST(ComparisonSpecTest, AGraphOfDynamoSwitchesModes) {
  const SweepSpec sweep =
      read("modes: [round_robin, kv]",
           "target: {url: 'http://h:1', model: m, dynamo: {name: g, namespace: llm, force: true, ready_timeout: 9 min,"
           " graph: {backend: vllm, image: 'a/b:1', model_path: /m, models_claim: models}}}");
  ASSERT_TRUE(sweep.target.dynamo);
  EXPECT_EQ(*sweep.target.dynamo,
            (DynamoTargetSpec{
                .name = "g",
                .name_space = "llm",
                .force = true,
                .ready_timeout = std::chrono::minutes(9),
                .graph = DynamoGraphSpec{
                    .backend = DynamoBackend::kVllm, .image = "a/b:1", .model_path = "/m", .models_claim = "models"}}));
  const auto refusal = [](const std::string& dynamo, const std::string& more = "") {
    return refused("modes: [kv]", "target: {url: 'http://h:1', model: m, dynamo: {" + dynamo + "}" + more + "}");
  };
  EXPECT_THAT(refusal("namespace: llm"), HasSubstr("name"));
  EXPECT_THAT(refusal("name: g, graph: {backend: vllm, image: a}"), HasSubstr("model_path"));
  EXPECT_THAT(refusal("name: g, graph: {backend: sglang, image: a, model_path: b}"), HasSubstr("trtllm or vllm"));
  EXPECT_THAT(refusal("name: g", ", admin: 'http://h:2'"), HasSubstr("in one place"));
}

TEST(ComparisonSpecTest, WhatCannotBeIsRefusedWithItsReason) {
  EXPECT_THAT(refused("modes: [kv]\narms: [{name: a, mode: kv}]"), HasSubstr("modes or arms, not both"));
  EXPECT_THAT(refused("arms: [{name: a, mode: kv}, {name: a, mode: kv}]"), HasSubstr("arm a occurs twice"));
  EXPECT_THAT(refused("arms: [{name: kv, mode: random}]"), HasSubstr("an arm called kv routes in that mode"));
  EXPECT_THAT(refused("arms: [{name: a}]"), HasSubstr("needs a mode"));
  EXPECT_THAT(refused("arms: [{name: a, mode: kv, url: 'http://h:1'}]"), HasSubstr("for a running target"));
  EXPECT_THAT(refused("modes: [kv]\ncomparison: {stop_when: {half_width: 2}}"),
              HasSubstr("order: abba or order: random"));
  EXPECT_THAT(refused("modes: [kv]\ncomparison: {order: abba, stop_when: {metric: speed, half_width: 2}}"),
              AllOf(HasSubstr("ttft_p50_ms"), HasSubstr("itl_p99_ms"), HasSubstr("speed")));
  EXPECT_THAT(refused("modes: [kv]\ncomparison: {order: abba, stop_when: {metric: good_pct, half_width: 2}}"),
              HasSubstr("good_pct needs the limits of a good turn: method.goodput"));
  EXPECT_THAT(
      refused("modes: [kv]\ncomparison: {order: abba, stop_when: {metric: ttft_from_schedule_p95_ms, half_width: 2}}"),
      HasSubstr("needs turns that are due by a schedule"));
  EXPECT_THAT(refused("modes: [kv]\ncomparison: {order: abba, stop_when: {metric: ttft_p50_ms}}"),
              HasSubstr("half_width"));
  EXPECT_THAT(refused("modes: [kv]\ncomparison: {caches: nonce}\nworkload: {trace: {file: t.jsonl}}"),
              HasSubstr("prompts of a trace"));
  EXPECT_THAT(refused("modes: [kv]", kTarget), HasSubstr("mode cannot be switched"));
  EXPECT_THAT(refused("arms: [{name: a}]\ncomparison: {caches: restart}", kTarget), HasSubstr("say reset, nonce"));
  EXPECT_THAT(refused("arms: [{name: a}]\ncomparison: {caches: reset}", kTarget), HasSubstr("target.workers"));
  EXPECT_THAT(refused("arms: [{name: a}]", "target: {url: 'h:1', model: m}"), HasSubstr("http://host:port"));
  EXPECT_THAT(refused("arms: [{name: a}]", "target: {url: 'http://u:p@h:1', model: m}"), HasSubstr("http://host:port"));
  EXPECT_THAT(refused("arms: [{name: a}]", "target: {url: 'http://h:1'}"), HasSubstr("model"));
  EXPECT_THAT(refused("modes: [kv]\nmethod: {goodput: {}}"), HasSubstr("at least one"));
}

}  // namespace
}  // namespace kvist::spec::comparison_test
