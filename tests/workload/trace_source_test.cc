#include "kvist/workload/trace_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kvist/base/random.h"

namespace kvist::workload::trace_source_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr TimePoint at(std::int64_t ms) {
  return TimePoint{milliseconds(ms)};
}

std::shared_ptr<const Trace> trace_at(const std::vector<int>& instants_ms) {
  Trace trace;
  for (const int ms : instants_ms) trace.requests.push_back({milliseconds(ms), 100, 7, {1, 2}});
  return std::make_shared<const Trace>(std::move(trace));
}

std::vector<std::uint64_t> ids_of(const std::vector<StartTurn>& turns) {
  std::vector<std::uint64_t> ids;
  for (const StartTurn& turn : turns) ids.push_back(turn.conversation.value());
  return ids;
}

TEST(TraceSource, AnOpenLoopKeepsTheRecordedInstants) {
  TraceSource source(trace_at({5'000, 5'000, 6'000, 9'000}), {.speed = 2}, at(100));
  EXPECT_EQ(source.next_wakeup(), at(100));
  EXPECT_TRUE(source.poll(at(99)).empty());
  EXPECT_THAT(ids_of(source.poll(at(100))), ElementsAre(0, 1));
  EXPECT_EQ(source.next_wakeup(), at(600));
  EXPECT_FALSE(source.is_exhausted());
  const auto late = source.poll(at(2'500));  // the client was delayed
  EXPECT_THAT(ids_of(late), ElementsAre(2, 3));
  EXPECT_EQ(late[0].intended, at(600));
  EXPECT_EQ(late[1].intended, at(2'100));
  EXPECT_TRUE(source.is_exhausted());  // only answers are awaited
  EXPECT_EQ(source.in_flight(), 4U);
  EXPECT_EQ(source.conversations_started(), 4U);
  EXPECT_FALSE(source.next_wakeup().has_value());
  EXPECT_TRUE(source.on_turn_finished(ConversationId(2), "", TurnOutcome::kFailed, at(2'600)).empty());
  EXPECT_EQ(source.in_flight(), 3U);
}

TEST(TraceSource, AClosedLoopFillsItsPlacesInOrder) {
  TraceSource source(trace_at({0, 0, 50'000, 90'000}), {.loop = spec::TraceLoop::kClosed, .concurrency = 2}, at(100));
  EXPECT_EQ(source.next_wakeup(), at(100));
  EXPECT_THAT(ids_of(source.poll(at(100))), ElementsAre(0, 1));
  EXPECT_FALSE(source.next_wakeup().has_value());
  const auto third = source.on_turn_finished(ConversationId(1), "", TurnOutcome::kSucceeded, at(300));
  EXPECT_THAT(ids_of(third), ElementsAre(2));
  EXPECT_EQ(third[0].intended, at(300));
  source.stop();
  EXPECT_TRUE(source.on_turn_finished(ConversationId(0), "", TurnOutcome::kSucceeded, at(400)).empty());
  EXPECT_TRUE(source.on_turn_finished(ConversationId(2), "", TurnOutcome::kAbandoned, at(400)).empty());
  EXPECT_EQ(source.in_flight(), 0U);
  EXPECT_TRUE(source.poll(at(100'000)).empty());
}

TEST(TraceSource, ARequestMatchesItsTraceLine) {
  auto trace = std::make_shared<Trace>();
  trace->requests = {{Duration(0), 1'100, 250, {4, 5, 6}}, {Duration(0), 1'100, 0, {4, 5, 7}}};
  TraceSource source(trace, {.seed = 3}, at(0));
  const auto turns = source.poll(at(0));
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_EQ(turns[0].turn, 0U);
  EXPECT_EQ(turns[0].max_tokens, 250U);
  EXPECT_TRUE(turns[0].ignore_eos);
  EXPECT_EQ(turns[1].max_tokens, 1U) << "no server answers with nothing";
  ASSERT_EQ(turns[0].messages.size(), 1U);
  EXPECT_EQ(turns[0].messages[0].role, "user");
  EXPECT_EQ(turns[0].messages[0].content.size(), 1'100U - 19);
  EXPECT_EQ(turns[0].messages[0].content.substr(0, 1'024 - 7), turns[1].messages[0].content.substr(0, 1'024 - 7));
  EXPECT_NE(turns[0].messages[0].content, turns[1].messages[0].content);
  EXPECT_NE(turns[0].seed, turns[1].seed);
  EXPECT_LT(turns[0].seed, std::uint64_t{1} << 53);
}

/// A session of three, the second after a pause and the third at its instant, beside a request of no session.
std::shared_ptr<const Trace> trace_with_session() {
  Trace trace;
  trace.requests = {{milliseconds(1'000), 1'040, 30, {4, 5}},
                    {milliseconds(3'000), 1'200, 30, {4, 5}, FollowUp{.request = 0, .pause = milliseconds(400)}},
                    {milliseconds(5'000), 1'500, 30, {4, 5, 6}, FollowUp{.request = 1}},
                    {milliseconds(5'000), 100, 30, {9}}};
  return std::make_shared<const Trace>(std::move(trace));
}

TEST(TraceSource, WhatFollowsWaitsForTheAnswerAndKeepsThePause) {
  TraceSource source(trace_with_session(), {.speed = 2}, at(0));
  EXPECT_THAT(ids_of(source.poll(at(0))), ElementsAre(0));
  EXPECT_EQ(source.next_wakeup(), at(2'000)) << "the second waits for the first";
  EXPECT_TRUE(source.on_turn_finished(ConversationId(0), "first", TurnOutcome::kSucceeded, at(1'000)).empty());
  EXPECT_EQ(source.next_wakeup(), at(1'200)) << "the pause, at twice the speed";
  const auto second = source.poll(at(1'200));
  EXPECT_THAT(ids_of(second), ElementsAre(1));
  EXPECT_EQ(second[0].session, ConversationId(0));
  ASSERT_EQ(second[0].messages.size(), 3U);
  EXPECT_EQ(second[0].messages[1].content, "first");
  EXPECT_TRUE(source.on_turn_finished(ConversationId(1), "second", TurnOutcome::kSucceeded, at(1'300)).empty());
  const auto both = source.poll(at(2'000));
  EXPECT_THAT(ids_of(both), ElementsAre(2, 3)) << "the third at its own instant";
  EXPECT_EQ(both[0].messages.size(), 5U);
  EXPECT_EQ(both[0].intended, at(2'000));
  EXPECT_EQ(source.conversations_started(), 4U);
  EXPECT_FALSE(source.next_wakeup().has_value());
}

TEST(TraceSource, WhatFollowsGoesWhenALateAnswerComesAndWithoutOneAfterAFailure) {
  TraceSource source(trace_with_session(), {}, at(0));
  (void)source.poll(at(0));
  (void)source.on_turn_finished(ConversationId(0), "", TurnOutcome::kFailed, at(100));
  const auto second = source.poll(at(500));
  EXPECT_THAT(ids_of(second), ElementsAre(1));
  EXPECT_EQ(second[0].messages.size(), 1U) << "there is no answer to go on from";
  EXPECT_THAT(ids_of(source.poll(at(4'000))), ElementsAre(3));
  const auto third = source.on_turn_finished(ConversationId(1), "late", TurnOutcome::kSucceeded, at(9'000));
  EXPECT_THAT(ids_of(third), ElementsAre(2)) << "its instant has passed";
  EXPECT_EQ(third[0].intended, at(9'000));
}

TEST(TraceSource, AnAnswerThatIsNotInTheNextPromptIsNotSent) {
  Trace trace = *trace_with_session();
  trace.requests[1].after->has_answer = false;
  TraceSource source(std::make_shared<const Trace>(std::move(trace)), {}, at(0));
  (void)source.poll(at(0));
  (void)source.on_turn_finished(ConversationId(0), "first", TurnOutcome::kSucceeded, at(100));
  const auto second = source.poll(at(500));
  EXPECT_THAT(ids_of(second), ElementsAre(1)) << "it waits all the same";
  EXPECT_EQ(second[0].messages.size(), 1U);
}

TEST(TraceSource, InAClosedLoopASessionKeepsItsPlace) {
  TraceSource source(trace_with_session(), {.loop = spec::TraceLoop::kClosed, .concurrency = 1}, at(0));
  std::vector<std::uint64_t> order = ids_of(source.poll(at(0)));
  for (int i = 0; i < 3; ++i) {
    const auto next = source.on_turn_finished(ConversationId(order.back()), "a", TurnOutcome::kSucceeded, at(i));
    ASSERT_EQ(next.size(), 1U);
    order.push_back(next[0].conversation.value());
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST(TraceSource, SessionsCanBeIgnored) {
  TraceSource source(trace_with_session(), {.sessions = spec::TraceSessions::kIgnore}, at(0));
  EXPECT_THAT(ids_of(source.poll(at(2'000))), ElementsAre(0, 1));
  const auto rest = source.poll(at(4'000));
  EXPECT_THAT(ids_of(rest), ElementsAre(2, 3));
  EXPECT_EQ(rest[0].messages.size(), 1U);
}

TEST(TraceSource, PartsAreTheTraceAndChainsStayTogether) {
  TraceSource first(trace_with_session(), {.speed = 2, .shard = {.index = 0, .count = 2}}, at(0));
  TraceSource second(trace_with_session(), {.speed = 2, .shard = {.index = 1, .count = 2}}, at(0));
  TraceSource third(trace_with_session(), {.speed = 2, .shard = {.index = 2, .count = 3}}, at(0));
  EXPECT_TRUE(third.is_exhausted());  // two chains for three parts
  EXPECT_FALSE(third.next_wakeup().has_value());
  EXPECT_THAT(ids_of(first.poll(at(2'000))), ElementsAre(0));
  EXPECT_THAT(ids_of(second.poll(at(1'999))), ElementsAre());
  EXPECT_THAT(ids_of(second.poll(at(2'000))), ElementsAre(3)) << "at the instant that it has in the whole";
  EXPECT_TRUE(second.is_exhausted());
  EXPECT_FALSE(first.is_exhausted());
  EXPECT_TRUE(first.on_turn_finished(ConversationId(0), "a", TurnOutcome::kSucceeded, at(2'100)).empty());
  EXPECT_THAT(ids_of(first.poll(at(2'300))), ElementsAre(1));
  EXPECT_THAT(ids_of(first.on_turn_finished(ConversationId(1), "b", TurnOutcome::kSucceeded, at(2'400))),
              ElementsAre(2));
  EXPECT_TRUE(first.is_exhausted());
  TraceSource closed(trace_at({0, 0, 0, 0, 0, 0}),
                     {.loop = spec::TraceLoop::kClosed, .concurrency = 5, .shard = {.index = 1, .count = 2}}, at(0));
  EXPECT_THAT(ids_of(closed.poll(at(0))), ElementsAre(1, 3)) << "its two of five places";
}

/// Drives a source in virtual time with random answer times and a client that is late now and then.
struct Sent {
  std::uint64_t id;
  TimePoint at;
  TimePoint intended;
};
std::vector<Sent> drive(TurnSource& source, RandomStream& random, std::uint32_t& most_in_flight) {
  std::vector<Sent> sent;
  std::multimap<TimePoint, ConversationId> in_flight;
  TimePoint now{};
  const auto accept = [&](const std::vector<StartTurn>& turns) {
    for (const StartTurn& turn : turns) {
      sent.push_back({turn.conversation.value(), now, turn.intended});
      in_flight.emplace(now + milliseconds(random.uniform_int(0, 3'000)), turn.conversation);
    }
    most_in_flight = std::max(most_in_flight, source.in_flight());
    EXPECT_EQ(source.in_flight(), in_flight.size());
  };
  for (;;) {
    const std::optional<TimePoint> wakeup = source.next_wakeup();
    if (!wakeup && in_flight.empty()) return sent;
    if (wakeup && (in_flight.empty() || *wakeup <= in_flight.begin()->first)) {
      now = std::max(now, *wakeup) + (random.uniform() < 0.2 ? milliseconds(random.uniform_int(0, 900)) : Duration{});
      accept(source.poll(now));
    } else {
      const auto [ends, conversation] = *in_flight.begin();
      in_flight.erase(in_flight.begin());
      now = std::max(now, ends);
      accept(source.on_turn_finished(conversation, "",
                                     random.uniform() < 0.1 ? TurnOutcome::kFailed : TurnOutcome::kSucceeded, now));
    }
  }
}

TEST(TraceSourceProperty, EveryRequestIsSentOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    std::vector<int> instants;
    for (int ms = 0, n = 0; n < 200; ++n) {
      ms += static_cast<int>(random.uniform() < 0.3 ? 0 : random.uniform_int(0, 400));
      instants.push_back(ms);
    }
    const bool open = seed % 2 == 0;
    const double speed = 0.5 + 3 * random.uniform();
    const auto places = static_cast<std::uint32_t>(random.uniform_int(1, 20));
    const TraceSource::Options options{.loop = open ? spec::TraceLoop::kOpen : spec::TraceLoop::kClosed,
                                       .speed = speed,
                                       .concurrency = places,
                                       .tokens_per_hash = 64};
    TraceSource source(trace_at(instants), options, TimePoint{});
    std::uint32_t most_in_flight = 0;
    const std::vector<Sent> sent = drive(source, random, most_in_flight);
    ASSERT_EQ(sent.size(), instants.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i].id, i);
      EXPECT_LE(sent[i].intended, sent[i].at);
      if (open) {
        const double expected_ms = (instants[i] - instants[0]) / speed;
        EXPECT_NEAR(to_milliseconds(sent[i].intended - TimePoint{}), expected_ms, 1e-3);
      }
    }
    if (!open) {
      EXPECT_EQ(most_in_flight, places) << "all places are used, and no more";
    }
    EXPECT_EQ(source.conversations_started(), instants.size());
  }
}

}  // namespace
}  // namespace kvist::workload::trace_source_test
