// A stored level over time as a message.
#include <gtest/gtest.h>

#include <string>

#include "analysis/sample_run.h"
#include "kvist/base/json.h"
#include "kvist/dashboard/run_library.h"

namespace kvist::dashboard::level_json_test {
namespace {

using analysis::sample_level;
using spec::RoutingMode;

TEST(LevelJson, ALevelOfHoursAndOfManyTurnsFitsIntoAMessage) {
  results::LevelRecord level = sample_level(RoutingMode::kKv, 40, 200);
  const workload::TurnSample one = level.turns.front();
  level.turns.clear();
  for (std::uint32_t i = 0; i < 60'000; ++i) {
    workload::TurnSample turn = one;
    turn.conversation = ConversationId(i / 100);
    turn.turn = i % 100;
    const Duration later = std::chrono::seconds(i);
    for (TimePoint* const at : {&turn.sent, &turn.intended, &turn.first_token, &turn.last_token, &turn.ended})
      *at += later;
    level.turns.push_back(std::move(turn));
  }
  for (int worker = 0; worker < 100; ++worker) {
    results::WorkerTimeline line{.worker = "worker-" + std::to_string(worker), .points = {}};
    line.points.assign(5'000, {.at = level.started, .running = 123'456, .prefill_backlog_tokens = 123'456'789});
    level.timelines.push_back(std::move(line));
  }
  const std::string text = level_json("0-1", 1, level);
  EXPECT_LT(text.size(), 7U << 20) << "a viewer is dropped that has 8 MiB unread";
  JsonDocument document;
  const auto root = document.parse_object(text);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_LE(root->require_array("t_s")->size(), 3'600U);
  EXPECT_GT(root->require_array("t_s")->size(), 3'000U);
  EXPECT_EQ(*root->require_unsigned("conversations_total", 0, 1'000), 600U);
  EXPECT_EQ(root->require_array("conversations")->size(), 100U) << "of 100 turns each";
}

TEST(LevelJson, ATurnThatNeverGotAConnectionBeganWhenItWasDue) {
  results::LevelRecord level = sample_level(RoutingMode::kKv, 40, 200);
  const Duration clock = std::chrono::hours(100);  // of a machine that was started long ago
  level.started += clock;
  level.measure_from += clock;
  level.measure_to += clock;
  level.turns.resize(1);
  workload::TurnSample& turn = level.turns.front();
  turn.outcome = workload::TurnOutcome::kFailed;
  turn.intended += clock;
  turn.ended = turn.intended + std::chrono::seconds(2);
  turn.sent = turn.first_token = turn.last_token = {};
  const std::string text = level_json("0-1", 1, level);
  EXPECT_TRUE(text.contains(R"("started_ms":6000,"ended_ms":8000,"duration_ms":2000)")) << text;
  EXPECT_TRUE(text.contains(R"("sent_ms":6000)")) << text;
  EXPECT_TRUE(text.contains(R"("in_flight":[0,0,0,0,0,1,1,0)")) << text;
}

}  // namespace
}  // namespace kvist::dashboard::level_json_test
