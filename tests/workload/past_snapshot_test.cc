#include "kvist/workload/past_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "kvist/workload/recorder.h"

namespace kvist::workload::past_snapshot_test {
namespace {

constexpr Duration kWindow = std::chrono::seconds(10);

TimePoint at(std::int64_t ms) {
  return TimePoint{std::chrono::milliseconds(ms)};
}

/// Turns at whole milliseconds, so that no entry of a recorder's rates holds more than one of them.
std::vector<TurnSample> drawn_turns(std::mt19937_64& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<TurnSample> turns(200);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    TurnSample& turn = turns[i];
    turn.conversation = ConversationId(i / 3);
    turn.turn = static_cast<std::uint32_t>(i % 3);
    std::int64_t now = number(1, 40'000);
    turn.intended = turn.handed = turn.sent = at(now);
    const std::int64_t kind = number(0, 9);
    turn.outcome = kind == 0 ? TurnOutcome::kFailed : kind == 1 ? TurnOutcome::kAbandoned : TurnOutcome::kSucceeded;
    turn.chunks = static_cast<std::uint32_t>(number(kind < 2 ? 0 : 1, 20));
    for (std::uint32_t chunk = 0; chunk < turn.chunks; ++chunk) {
      const std::int64_t gap = number(1, 400);
      now += gap;
      if (chunk == 0) {
        turn.first_token = at(now);
      } else {
        turn.gaps_ms.push_back(static_cast<float>(gap));
      }
      turn.last_token = at(now);
    }
    turn.ended = at(now + number(1, 300));
    if (turn.outcome == TurnOutcome::kSucceeded && kind < 8) {
      turn.prompt_tokens = 100;
      turn.completion_tokens = turn.chunks + static_cast<std::uint32_t>(number(0, 2));
    }
  }
  return turns;
}

/// What a recorder would have been told, in the order of time up to `until`.
void replay(const std::vector<TurnSample>& turns, TimePoint until, Recorder& recorder) {
  struct Event {
    TimePoint at;
    std::function<void()> tell;
  };
  std::vector<Event> events;
  for (const TurnSample& turn : turns) {
    if (turn.turn == 0) events.push_back({turn.handed, [&] { recorder.on_conversation_started(turn.handed); }});
    if (turn.chunks > 0) {
      events.push_back({turn.first_token, [&] {
                          recorder.on_first_token(turn.first_token, turn.first_token - turn.sent);
                          recorder.on_content_chunks(turn.first_token, 1);
                        }});
    }
    TimePoint chunk = turn.first_token;
    for (const float gap : turn.gaps_ms) {
      chunk += from_milliseconds(static_cast<double>(gap));
      events.push_back({chunk, [&recorder, chunk] { recorder.on_content_chunks(chunk, 1); }});
    }
    events.push_back({turn.ended, [&] { recorder.on_turn_finished(turn, turn.ended); }});
  }
  std::ranges::stable_sort(events, {}, &Event::at);
  for (const Event& event : events) {
    if (event.at <= until) event.tell();
  }
}

TEST(PastSnapshot, IsWhatARecorderOfTheWholeLoadSaid) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const std::vector<TurnSample> turns = drawn_turns(random);
    for (const std::int64_t ms : {5'000, 12'345, 30'000, 60'000}) {
      Recorder recorder(kWindow);
      replay(turns, at(ms), recorder);
      const auto in_flight = static_cast<std::uint32_t>(std::ranges::count_if(
          turns, [&](const TurnSample& turn) { return turn.handed <= at(ms) && turn.ended > at(ms); }));
      const Snapshot said = recorder.snapshot(at(ms), in_flight);
      const Snapshot found = past_snapshot(turns, at(ms), kWindow);
      EXPECT_EQ(found.at, said.at);
      for (const auto quantile :
           {&Snapshot::ttft_p50_ms, &Snapshot::ttft_p95_ms, &Snapshot::tpot_p50_ms, &Snapshot::tpot_p95_ms,
            &Snapshot::itl_p50_ms, &Snapshot::itl_p95_ms, &Snapshot::latency_p50_ms, &Snapshot::latency_p95_ms}) {
        EXPECT_EQ(found.*quantile, said.*quantile);
      }
      EXPECT_DOUBLE_EQ(found.output_tokens_per_s, said.output_tokens_per_s);
      EXPECT_DOUBLE_EQ(found.turns_per_s, said.turns_per_s);
      EXPECT_DOUBLE_EQ(found.conversation_starts_per_s, said.conversation_starts_per_s);
      EXPECT_DOUBLE_EQ(found.failed_per_s, said.failed_per_s);
      EXPECT_DOUBLE_EQ(found.error_pct, said.error_pct);
      EXPECT_EQ(found.in_flight, said.in_flight);
    }
  }
}

TEST(PastSnapshot, OfNoTurnsIsEmpty) {
  const Snapshot snapshot = past_snapshot({}, at(5), kWindow);
  EXPECT_FALSE(snapshot.ttft_p50_ms.has_value());
  EXPECT_EQ(snapshot.output_tokens_per_s, 0);
  EXPECT_EQ(snapshot.error_pct, 0);
}

}  // namespace
}  // namespace kvist::workload::past_snapshot_test
