#include "kvist/workload/recorded_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kvist/base/random.h"
#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"

namespace kvist::workload::recorded_source_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr TimePoint at(std::int64_t ms) {
  return TimePoint{milliseconds(ms)};
}

spec::WorkloadSpec small_workload() {
  spec::WorkloadSpec workload;
  workload.starter_tokens_min = 20;
  workload.starter_tokens_max = 60;
  workload.turns_min = workload.turns_max = 3;
  workload.max_tokens = 50;
  return workload;
}

RecordedTurn turn(std::uint64_t conversation, std::uint32_t number, int sent_ms) {
  return {ConversationId(conversation), number, milliseconds(sent_ms)};
}

std::shared_ptr<const RecordedLevel> level_of(std::vector<RecordedTurn> turns) {
  return std::make_shared<const RecordedLevel>(
      RecordedLevel{.workload = small_workload(), .seed = 42, .turns = std::move(turns)});
}

TEST(RecordedRunSource, AnOpenLoopAwaitsTheReplyTheHistoryNeeds) {
  RecordedRunSource source(level_of({turn(5, 0, 0), turn(5, 1, 1'000), turn(5, 2, 2'000)}), {}, at(100));
  auto turns = source.poll(at(100));
  ASSERT_EQ(turns.size(), 1U);
  EXPECT_EQ(turns[0].conversation, ConversationId(5));
  EXPECT_EQ(turns[0].max_tokens, 50U);
  EXPECT_FALSE(turns[0].ignore_eos);

  // An early reply: the next turn waits for its instant, and nothing is in flight.
  EXPECT_TRUE(source.on_turn_finished(ConversationId(5), "one", TurnOutcome::kSucceeded, at(300)).empty());
  EXPECT_EQ(source.in_flight(), 0U);
  EXPECT_EQ(source.next_wakeup(), at(1'100));
  EXPECT_TRUE(source.poll(at(1'099)).empty());
  turns = source.poll(at(1'110));
  ASSERT_EQ(turns.size(), 1U);
  EXPECT_EQ(turns[0].turn, 1U);
  EXPECT_EQ(turns[0].intended, at(1'100));
  ASSERT_EQ(turns[0].messages.size(), 3U);
  EXPECT_EQ(turns[0].messages[1].content, "one");

  // A late reply: the next turn is due at once.
  turns = source.on_turn_finished(ConversationId(5), "two", TurnOutcome::kSucceeded, at(5'000));
  ASSERT_EQ(turns.size(), 1U);
  EXPECT_EQ(turns[0].turn, 2U);
  EXPECT_EQ(turns[0].intended, at(5'000));
  EXPECT_TRUE(source.on_turn_finished(ConversationId(5), "three", TurnOutcome::kSucceeded, at(6'000)).empty());
  EXPECT_FALSE(source.next_wakeup().has_value());
  EXPECT_EQ(source.dropped_slots(), 0U);
}

TEST(RecordedRunSource, AFailedConversationEnds) {
  RecordedRunSource source(level_of({turn(5, 0, 0), turn(5, 1, 1'000), turn(5, 2, 2'000)}), {}, at(0));
  EXPECT_EQ(source.poll(at(0)).size(), 1U);
  EXPECT_TRUE(source.on_turn_finished(ConversationId(5), "", TurnOutcome::kFailed, at(10)).empty());
  EXPECT_FALSE(source.next_wakeup().has_value());
  EXPECT_EQ(source.dropped_slots(), 2U);
}

TEST(RecordedRunSource, TurnsBehindAGapHaveNoHistory) {
  RecordedRunSource source(level_of({turn(3, 1, 0), turn(1, 2, 30), turn(1, 0, 20), turn(2, 0, 10), turn(2, 1, 15)}),
                           {.loop = spec::TraceLoop::kClosed, .concurrency = 9}, at(0));
  const auto turns = source.poll(at(0));
  ASSERT_EQ(turns.size(), 2U);  // conversation 3 has no beginning
  EXPECT_EQ(turns[0].conversation, ConversationId(2));
  EXPECT_EQ(turns[1].conversation, ConversationId(1));
  EXPECT_TRUE(source.on_turn_finished(ConversationId(1), "r", TurnOutcome::kSucceeded, at(9)).empty());
  EXPECT_EQ(source.on_turn_finished(ConversationId(2), "r", TurnOutcome::kSucceeded, at(9)).size(), 1U);
}

/// The turns that a driver sent: everything but the instants follows from conversation and turn.
struct Sent {
  StartTurn turn;
  TimePoint at;
};

/// Runs a source in virtual time against a server whose reply to a turn is always the same. How long it takes follows
/// from the turn too, or, where `random` is given, is drawn.
std::vector<Sent> drive(TurnSource& source, RandomStream* random, TimePoint until, std::uint32_t most_in_flight) {
  std::vector<Sent> sent;
  std::vector<std::pair<TimePoint, std::size_t>> in_flight;  // end, index in sent
  TimePoint now{};
  const auto accept = [&](std::vector<StartTurn> turns) {
    for (StartTurn& turn : turns) {
      const auto usual = static_cast<std::int64_t>(1 + turn.seed % 2'000);
      const std::int64_t ms = random == nullptr ? usual : random->uniform_int(1, 2'000);
      in_flight.emplace_back(now + milliseconds(ms), sent.size());
      sent.push_back({std::move(turn), now});
    }
    EXPECT_LE(source.in_flight(), most_in_flight);
    EXPECT_EQ(source.in_flight(), in_flight.size());
  };
  for (;;) {
    if (now >= until) source.stop();
    const std::optional<TimePoint> wakeup = source.next_wakeup();
    const auto first = std::ranges::min_element(in_flight);
    if (!wakeup && first == in_flight.end()) {
      EXPECT_TRUE(source.is_exhausted());
      return sent;
    }
    if (wakeup && (first == in_flight.end() || *wakeup <= first->first)) {
      now = std::max(now, *wakeup);
      EXPECT_FALSE(source.is_exhausted());
      accept(source.poll(now));
    } else {
      const auto [ends, index] = *first;
      in_flight.erase(first);
      now = std::max(now, ends);
      const StartTurn& turn = sent[index].turn;
      accept(source.on_turn_finished(turn.conversation, "reply " + std::to_string(turn.seed % 1'000),
                                     TurnOutcome::kSucceeded, now));
    }
  }
}

std::vector<Sent> by_turn(std::vector<Sent> sent) {
  std::ranges::sort(sent, {}, [](const Sent& s) { return std::pair(s.turn.conversation, s.turn.turn); });
  return sent;
}

TEST(RecordedRunSourceProperty, AReplaySendsWhatWasRecorded) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    spec::WorkloadSpec workload = small_workload();
    workload.turns_max = 5;
    LoadDriver driver(workload, 12, seed, TimePoint{});
    const std::vector<Sent> first = drive(driver, nullptr, TimePoint{} + seconds(30), 12);
    auto level = std::make_shared<RecordedLevel>(RecordedLevel{.workload = workload, .seed = seed, .turns = {}});
    for (const Sent& s : first) level->turns.push_back({s.turn.conversation, s.turn.turn, s.at - TimePoint{}});

    const bool open = seed % 2 == 0;
    spec::WorkloadSpec replay;
    replay.trace.file = "run.sqlite";
    replay.trace.loop = open ? spec::TraceLoop::kOpen : spec::TraceLoop::kClosed;
    const auto source = make_turn_source(replay, {.trace = nullptr, .recorded = level}, 5, 0, TimePoint{}).value();
    const bool same_server = seed % 4 == 0;
    const std::vector<Sent> again =
        drive(*source, same_server ? nullptr : &random, TimePoint::max(), open ? 10'000 : 5);

    ASSERT_EQ(again.size(), first.size());
    const std::vector<Sent> a = by_turn(first);
    const std::vector<Sent> b = by_turn(again);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].turn.conversation, b[i].turn.conversation);
      ASSERT_EQ(a[i].turn.turn, b[i].turn.turn);
      EXPECT_EQ(a[i].turn.seed, b[i].turn.seed);
      EXPECT_EQ(a[i].turn.max_tokens, b[i].turn.max_tokens);
      ASSERT_EQ(a[i].turn.messages.size(), b[i].turn.messages.size());
      for (std::size_t m = 0; m < a[i].turn.messages.size(); ++m) {
        EXPECT_EQ(a[i].turn.messages[m].content, b[i].turn.messages[m].content);
      }
      if (!open) continue;
      EXPECT_GE(b[i].at, a[i].at);
      if (same_server || a[i].turn.turn == 0) {
        EXPECT_EQ(b[i].at, a[i].at);
      }
    }
    EXPECT_EQ(source->dropped_slots(), 0U);
  }
}

TEST(LoadInput, ALoadThatCannotBeDrivenIsRefused) {
  const auto message = [](const spec::WorkloadSpec& spec, const LoadInput& input, std::uint32_t concurrency = 1) {
    return make_turn_source(spec, input, concurrency, 1, TimePoint{}).error().message;
  };
  spec::WorkloadSpec spec;
  EXPECT_THAT(message(spec, {}, 0), HasSubstr("concurrency is 0"));
  spec.trace.file = "t.jsonl";
  EXPECT_THAT(message(spec, {}), HasSubstr("t.jsonl has not been loaded"));
  EXPECT_THAT(message(spec, {.trace = std::make_shared<Trace>(), .recorded = {}}), HasSubstr("holds no request"));
  auto trace = std::make_shared<Trace>();
  trace->requests = {{Duration(0), 1, 1, {}}, {std::chrono::hours(24 * 365 * 20), 1, 1, {}}};
  EXPECT_TRUE(make_turn_source(spec, {.trace = trace, .recorded = {}}, 1, 1, TimePoint{}).has_value());
  spec.trace.speed = 0.001;
  EXPECT_THAT(message(spec, {.trace = trace, .recorded = {}}), HasSubstr("at speed 0.001"));
  spec.trace.speed = 0;
  EXPECT_THAT(message(spec, {.trace = trace, .recorded = {}}), HasSubstr("speed is 0"));
}

TEST(LoadInput, SettingsThatAReplayDoesNotUseAreRefused) {
  const auto message = [](const spec::TraceSpec& trace, bool is_run) {
    spec::WorkloadSpec spec;
    spec.trace = trace;
    LoadInput input;
    if (is_run) {
      input.recorded = std::make_shared<RecordedLevel>();
    } else {
      Trace one;
      one.requests = {{Duration(0), 1, 1, {}}};
      input.trace = std::make_shared<Trace>(one);
    }
    const Result<void> checked = check_load(spec, input);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(message({.file = "t.jsonl", .speed = 2, .tokens_per_hash = 16}, false), "");
  EXPECT_EQ(message({.file = "t.sqlite", .run = 1, .level = 2, .speed = 2}, true), "");
  EXPECT_THAT(message({.file = "t.jsonl", .loop = spec::TraceLoop::kClosed, .speed = 2}, false),
              HasSubstr("trace speed of t.jsonl: is for `loop: open`"));
  EXPECT_THAT(message({.file = "t.sqlite", .tokens_per_hash = 16}, true), HasSubstr("tokens_per_hash of t.sqlite"));
  EXPECT_THAT(message({.file = "t.sqlite", .sessions = spec::TraceSessions::kIgnore}, true),
              HasSubstr("sessions of t.sqlite"));
}

}  // namespace
}  // namespace kvist::workload::recorded_source_test
