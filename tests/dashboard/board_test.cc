// What the dashboard tells: samples, events, the baseline of the present load, history.
#include "kvist/dashboard/board.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/json.h"

namespace kvist::dashboard::board_test {
namespace {

using workload::LoadBatch;

constexpr double kUnix = 1'800'000'000.25;
TimePoint at(double seconds) {
  return TimePoint{} + from_seconds(seconds);
}

Facts facts() {
  Facts made{.source = "up", .title = "three <workers>", .target = "http://t", .model = "m", .time_scale = 2};
  made.abilities = {.start_and_stop = true, .concurrency = true, .rate = true, .modes = true};
  made.slo = {{.figure = index_of(Live::kTtftP95), .limit = 600},
              {.figure = index_of(Live::kOutputTokens), .limit = 2'000, .is_least = true}};
  return made;
}

class BoardTest : public testing::Test {
 protected:
  Board make() {
    auto baseline = load_baseline(KVIST_SOURCE_DIR "/data/reference/trtllm-3xh200-rr-vs-kv-40-120.json", std::nullopt);
    EXPECT_TRUE(baseline);
    return {facts(), "server-1", *std::move(baseline), at(1'000), kUnix};
  }
  static LoadState running(std::uint32_t concurrency) {
    return {.state = "running",
            .concurrency = concurrency,
            .rate_per_s = 10,
            .seed = 5,
            .started = at(1'001),
            .in_flight = 7};
  }
  JsonObject sample(const Board& board) {
    text_ = board.sample();
    auto object = document_.parse_object(text_);
    EXPECT_TRUE(object) << text_;
    return *object;
  }

  std::string text_;
  JsonDocument document_;
};

/// One turn of a second, ended at `end`.
LoadBatch turn(std::uint64_t id, double end, std::uint32_t cached) {
  LoadBatch batch;
  workload::TurnSample one;
  one.conversation = ConversationId(id);
  one.sent = at(end - 1);
  one.first_token = at(end - 0.8);
  one.last_token = at(end);
  one.ended = at(end);
  one.prompt_tokens = 100;
  one.cached_tokens = cached;
  one.completion_tokens = 9;
  one.chunks = 9;
  batch.conversation_starts.push_back(at(end - 1));
  batch.first_tokens.push_back({.at = at(end - 0.8), .ttft = from_milliseconds(200)});
  batch.chunks.push_back({.at = at(end), .count = 9});
  batch.gaps_ms = {100, 100};
  batch.ended.push_back({.sample = one, .answer = {}});
  return batch;
}

TEST_F(BoardTest, AnIdleLoadHasNoFiguresAndNoBaseline) {
  Board board = make();
  EXPECT_TRUE(board.sample().empty());
  board.on_load({}, {}, at(1'001));
  board.tick(at(1'001.75));
  const JsonObject root = sample(board);
  EXPECT_EQ(*root.require_unsigned("t_ms", 0, 1ULL << 53), 1'800'000'002'000U) << "a whole second";
  EXPECT_EQ(*(*root.require_object("load")).require_string("state"), "idle");
  EXPECT_TRUE((*root.require_object("load")).require_or_null("concurrency")->is_null());
  EXPECT_TRUE((*root.require_object("live")).require_or_null("ttft_p50_ms")->is_null());
  EXPECT_TRUE(root.require_or_null("baseline")->is_null());
  EXPECT_TRUE(root.require_or_null("workers")->is_null());
  EXPECT_TRUE(root.require_or_null("gateway")->is_null());
}

TEST_F(BoardTest, FiguresOfTheLoadStandBesideTheBaselineOfItsConcurrency) {
  Board board = make();
  board.on_load(running(45), {}, at(1'001));
  board.on_load(running(45), turn(1, 1'004, 50), at(1'004));
  board.on_load(running(45), turn(2, 1'005, 100), at(1'005));
  board.tick(at(1'005));
  const JsonObject root = sample(board);
  const JsonObject live = *root.require_object("live");
  EXPECT_EQ(*live.require_double("ttft_p50_ms", 0, 1e6), 200);
  EXPECT_EQ(*live.require_double("tpot_p50_ms", 0, 1e6), 100);
  EXPECT_EQ(*live.require_double("latency_p95_ms", 0, 1e6), 1'000);
  EXPECT_EQ(*live.require_double("hit_rate_pct", 0, 100), 75);
  EXPECT_EQ(*live.require_double("turns_per_s", 0, 1e6), 0.5) << "two turns in the four seconds since the start";
  EXPECT_EQ(*live.require_double("in_flight", 0, 1e6), 7);
  EXPECT_EQ(*live.require_double("error_pct", 0, 1e6), 0);
  const JsonObject line = *(*root.require_object("baseline")).require_object("round_robin");
  EXPECT_TRUE(*line.require_bool("interpolated"));
  EXPECT_NEAR(*(*line.require_object("figures")).require_double("ttft_p50_ms", 0, 1e6), (271.4 + 255.5) / 2, 0.01);
}

TEST_F(BoardTest, TheHitRateIsUnknownWhereNoAnswerTellsItsCachedTokens) {
  Board board = make();
  board.on_load(running(45), {}, at(1'001));
  board.on_load(running(45), turn(1, 1'004, 0), at(1'004));
  board.tick(at(1'005));
  EXPECT_TRUE((*sample(board).require_object("live")).require_or_null("hit_rate_pct")->is_null());
  LoadBatch told = turn(2, 1'006, 0);
  told.ended[0].sample.reports_cached = true;
  board.on_load(running(45), told, at(1'006));
  board.tick(at(1'006));
  EXPECT_EQ(*(*sample(board).require_object("live")).require_double("hit_rate_pct", 0, 100), 0) << "told: none";
}

TEST_F(BoardTest, WhereAllTurnsFailThereAreErrorsAndNoTurns) {
  Board board = make();
  LoadBatch failed = turn(1, 1'004, 0);
  failed.ended.front().sample.outcome = workload::TurnOutcome::kFailed;
  board.on_load(running(45), {}, at(1'001));
  board.on_load(running(45), std::move(failed), at(1'004));
  board.tick(at(1'005));
  const JsonObject live = *sample(board).require_object("live");
  EXPECT_EQ(*live.require_double("error_pct", 0, 1e6), 100);
  EXPECT_EQ(*live.require_double("turns_per_s", 0, 1e6), 0);
}

TEST_F(BoardTest, ANewLoadDoesNotSeeTheOneBefore) {
  Board board = make();
  board.on_load(running(45), turn(1, 1'004, 50), at(1'004));
  LoadState next = running(50);
  next.started = at(1'005);
  board.on_load(next, {}, at(1'005));
  board.tick(at(1'005));
  EXPECT_TRUE((*sample(board).require_object("live")).require_or_null("ttft_p50_ms")->is_null());
}

TEST_F(BoardTest, ChangesAreMarkedInTime) {
  Board board = make();
  FleetReading reading;
  reading.status = GatewayStatus{.model = "m", .mode = "round_robin", .workers = {}};
  board.on_load({}, {}, at(1'000));
  board.on_fleet(reading, {.url = "http://g", .reached = true}, at(1'001));
  EXPECT_EQ(board.events().last(), 0U);
  board.on_load(running(12), {}, at(1'002));
  board.on_load(running(36), {}, at(1'003));
  reading.status->mode = "kv";
  board.on_fleet(reading, {.url = "http://g", .reached = true}, at(1'004));
  board.on_fleet({}, {.url = "http://g", .reached = false, .problem = "refused"}, at(1'005));
  LoadState draining = running(36);
  draining.state = "draining";
  board.on_load(draining, {}, at(1'006));
  board.on_load({}, {}, at(1'007));
  const std::string text = board.events().json_after(0);
  for (const char* const part : {R"("seq":1,"t_ms":1800000001250,"kind":"start")",
                                 R"("kind":"concurrency","text":"conversations at once 12 -> 36")",
                                 R"("kind":"mode","text":"routing mode round_robin -> kv")", R"("kind":"gateway_lost")",
                                 R"("kind":"stop")", R"("kind":"end")"})
    EXPECT_TRUE(text.contains(part)) << part << " in " << text;
  EXPECT_EQ(board.events().last(), 6U);
  EXPECT_FALSE(board.events().has_after(6));
  EXPECT_TRUE(board.events().json_after(5).contains(R"("seq":6)"));
  EXPECT_FALSE(board.events().json_after(5).contains(R"("seq":5)"));
}

TEST_F(BoardTest, HelloSaysWhatCanBeSeenAndDone) {
  const Board board = make();
  const std::string text = board.hello_json(at(1'000));
  const auto root = document_.parse_object(text);
  ASSERT_TRUE(root) << text;
  EXPECT_EQ(*root->require_string("title"), "three <workers>");
  EXPECT_EQ(*root->require_string("server_id"), "server-1");
  const auto controls = root->require_object("controls");
  ASSERT_TRUE(controls);
  EXPECT_EQ(controls->require_array("modes")->size(), spec::kRoutingModeCount - 1) << "all but the one of simulations";
  EXPECT_TRUE(text.contains(R"("slo":[{"figure":"ttft_p95_ms","limit":600,"warn":480,"is_least":false},)"
                            R"({"figure":"output_tokens_per_s","limit":2000,"warn":2500,"is_least":true}])"))
      << text;
  EXPECT_TRUE(text.contains(R"("history":[{"step_s":1,"length_s":1800},)")) << text;
}

TEST_F(BoardTest, ADayOfSecondsAndTurnsStaysInItsMemory) {
  Board board = make();
  FleetReading reading;
  reading.status = GatewayStatus{.model = "m", .mode = "kv", .workers = {}};
  for (int i = 0; i < 4; ++i)
    reading.status->workers.push_back(
        {.name = "w" + std::to_string(i), .model = "m", .url = "", .state = "healthy", .problem = "", .in_flight = i});
  board.on_fleet(reading, {.url = "http://g", .reached = true}, at(1'000));
  const std::size_t before = board.history_bytes();
  std::size_t longest = 0;
  for (int second = 1; second <= 86'400; ++second) {
    const TimePoint now = at(1'000 + second);
    board.on_load(running(static_cast<std::uint32_t>(40 + (second / 600 % 40))),
                  turn(static_cast<std::uint64_t>(second), 1'000 + second, 50), now);
    board.on_fleet(reading, {.url = "http://g", .reached = true}, now);
    board.tick(now);
    longest = std::max(longest, board.sample().size());
  }
  EXPECT_EQ(board.history_bytes(), before);
  EXPECT_LE(board.conversations().size(), 20'000U);
  EXPECT_LE(longest, 8'000U);
  const std::string day = board.history_json(false, 86'400, 4'800);
  JsonDocument document;
  const auto root = document.parse_object(day);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->require_array("t_ms")->size(), 1'440U);
  EXPECT_LE(day.size(), 512U << 10);
}

TEST_F(BoardTest, ARunningSweepHasProgressAndAnEnd) {
  Board board = make();
  SweepProgress sweep{.name = "s", .state = SweepState::kRunning};
  sweep.begun = at(1'000);
  sweep.warmup = std::chrono::seconds(10);
  sweep.measuring = std::chrono::seconds(30);
  sweep.levels = {
      {.mode = "kv", .concurrency = 10, .state = LevelState::kDone, .started = at(1'000), .ended = at(1'050)},
      {.mode = "kv", .concurrency = 20, .state = LevelState::kRunning, .started = at(1'050)},
      {.mode = "kv", .concurrency = 30}};
  EXPECT_EQ(sweep.phase(at(1'055)), "warm_up");
  EXPECT_EQ(sweep.phase(at(1'061)), "measuring");
  EXPECT_EQ(sweep.estimated_end(at(1'060)), at(1'150)) << "a level took 50 s; 40 s and 50 s are left";
  EXPECT_DOUBLE_EQ(sweep.progress(at(1'060)), 60.0 / 150);
  board.on_sweep(sweep);
  board.tick(at(1'060));
  EXPECT_EQ(*(*sample(board).require_object("sweep")).require_string("phase"), "measuring");
  const std::string message = board.sweep_message(at(1'060));
  const auto root = document_.parse_object(message);
  ASSERT_TRUE(root) << message;
  EXPECT_EQ(root->require_array("levels")->size(), 3U);
}

}  // namespace
}  // namespace kvist::dashboard::board_test
