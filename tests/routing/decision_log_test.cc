#include "kvist/routing/decision_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvist::routing::decision_log_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr TimePoint at(int ms) {
  return TimePoint(milliseconds(ms));
}

// Candidates of these costs, workers from 0.
std::vector<Candidate> of_costs(const std::vector<double>& costs) {
  std::vector<Candidate> result;
  for (std::uint32_t i = 0; i < costs.size(); ++i)
    result.push_back({.worker = WorkerId(i), .load = {}, .cost = costs[i]});
  return result;
}

std::uint64_t decide(DecisionLog& log, std::uint64_t request, const std::vector<Candidate>& candidates,
                     std::size_t chosen, TimePoint now = {}) {
  const PolicyQuery query{.request = RequestId(request), .prompt_tokens = 100, .block_size = 32, .session = 9};
  return log.on_decided({.query = query,
                         .name = "r" + std::to_string(request),
                         .prompt_blocks = 3,
                         .excluded = {},
                         .candidates = candidates,
                         .chosen = chosen,
                         .at = now});
}

std::vector<std::uint32_t> workers_of(const DecisionRecord& record) {
  std::vector<std::uint32_t> workers;
  for (const Candidate& candidate : record.candidates) workers.push_back(candidate.worker.value());
  return workers;
}

TEST(DecisionLogTest, KeepsWhatWasSeenAndWhatHappened) {
  DecisionLog log({});
  const std::uint64_t number = decide(log, 7, of_costs({3, 1}), 1, at(10));
  log.on_first_token(number, at(25));
  log.on_usage(number, 64);
  EXPECT_EQ(log.newest(0).after.state, AttemptState::kUnderWay);
  log.on_finished(number, true, 12, at(110));
  ASSERT_EQ(log.size(), 1U);
  const DecisionRecord& record = log.newest(0);
  EXPECT_EQ(record.number, 1U);
  EXPECT_EQ(record.name, "r7");
  EXPECT_EQ(record.chosen, WorkerId(1));
  EXPECT_EQ(record.session, 9U);
  EXPECT_EQ(record.prompt_blocks, 3U);
  EXPECT_EQ(record.candidates[0].cost, 3);
  EXPECT_EQ(record.after, (Aftermath{.state = AttemptState::kCompleted,
                                     .ttft = milliseconds(15),
                                     .cached_tokens = 64,
                                     .output_tokens = 12,
                                     .duration = milliseconds(100)}));
}

TEST(DecisionLogTest, KeepsTheBeginningOfWhyAnAttemptFailed) {
  DecisionLog log({});
  const std::uint64_t number = decide(log, 7, of_costs({3, 1}), 1);
  log.on_failed(number, std::string(300, 'x'));
  log.on_finished(number, false, 0, at(5));
  EXPECT_EQ(log.newest(0).after.failure, std::string(DecisionLog::kMaxFailureBytes, 'x'));
  log.on_failed(number + 1, "of a decision that was never made");
}

TEST(DecisionLogTest, ARetryIsADecisionOfItsOwn) {
  DecisionLog log({});
  log.on_finished(decide(log, 7, of_costs({3, 1}), 1), false, 0, at(5));
  log.on_finished(decide(log, 7, of_costs({3}), 0, at(5)), true, 8, at(50));
  EXPECT_EQ(log.newest(1).after.state, AttemptState::kFailed);
  EXPECT_EQ(log.newest(0).after.state, AttemptState::kCompleted);
  EXPECT_EQ(log.newest(0).after.duration, milliseconds(45));
}

TEST(DecisionLogTest, TheNewestTakesThePlaceOfTheOldest) {
  DecisionLog log({.decisions = 3});
  for (std::uint64_t request = 1; request <= 5; ++request) decide(log, request, of_costs({0}), 0);
  EXPECT_EQ(log.total(), 5U);
  ASSERT_EQ(log.size(), 3U);
  EXPECT_EQ(log.newest(0).request, RequestId(5));
  EXPECT_EQ(log.newest(2).request, RequestId(3));
  log.on_finished(1, true, 1, at(1));  // its place belongs to another decision now
  log.on_finished(3, true, 1, at(1));
  EXPECT_EQ(log.newest(1).after.state, AttemptState::kUnderWay);
  EXPECT_EQ(log.newest(2).after.state, AttemptState::kCompleted);
}

TEST(DecisionLogTest, OfManyCandidatesKeepsTheChosenAndTheBest) {
  DecisionLog log({.decisions = 2, .candidates = 4});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  decide(log, 1, of_costs({5, 9, 1, 8, kInfinity, 2, 7, 3}), 1);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(1, 2, 5, 7));
  EXPECT_EQ(log.newest(0).left_out, 4U);
  EXPECT_EQ(log.newest(0).chosen, WorkerId(1));
  decide(log, 2, of_costs({0, 0, 0, 0, 0, 0}), 5);  // of equals the first
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(0, 1, 2, 5));
  decide(log, 3, of_costs({1, 2}), 0);  // in the place of the first
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(0, 1));
  EXPECT_EQ(log.newest(0).left_out, 0U);
  decide(log, 4, of_costs(std::vector<double>(1'000, 1)), 999);
  EXPECT_THAT(log.newest(0).candidates, SizeIs(4));
}

// Candidates of these costs, workers from 0, that have requests, apart from those that are `idle`.
std::vector<Candidate> of_costs(const std::vector<double>& costs, const std::vector<std::uint32_t>& idle) {
  std::vector<Candidate> candidates = of_costs(costs);
  for (Candidate& candidate : candidates) candidate.load.requests = 2;
  for (const std::uint32_t i : idle) candidates[i].load.requests = 0;
  return candidates;
}

TEST(DecisionLogTest, KeepsTheCheapestIdleCandidateBesideThem) {
  DecisionLog log({.decisions = 2, .candidates = 3});
  const std::vector<double> costs = {5, 9, 1, 8, 3, 8, 2, 8.5};
  decide(log, 1, of_costs(costs, {1, 3, 5}), 0);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(0, 2, 3, 6)) << "of equals the first";
  EXPECT_EQ(log.newest(0).left_out, 4U);
  decide(log, 2, of_costs(costs, {1, 3, 6}), 0);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(0, 2, 6)) << "one of the best is idle";
  decide(log, 3, of_costs(costs, {1, 3}), 1);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(1, 2, 6)) << "the chosen one is idle";
  decide(log, 4, of_costs(costs, {}), 0);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(0, 2, 6));
}

TEST(DecisionLogTest, WhereSomeAreLeftOutKeepsWhatTheFleetWasLike) {
  DecisionLog log({.decisions = 2, .candidates = 2});
  const PolicyQuery query{.request = RequestId(1)};
  const FoundFleet fleet{.waiting = 0.5, .any_room = false, .cached_tokens = 64};
  const auto decide = [&](const std::vector<Candidate>& candidates, std::size_t most_kept) {
    log.on_decided({.query = query, .candidates = candidates, .fleet = fleet, .most_kept = most_kept});
    return log.newest(0).fleet;
  };
  EXPECT_EQ(decide(of_costs({1, 2, 3}), 0), fleet);
  EXPECT_EQ(decide(of_costs({1, 2}), 0), std::nullopt) << "it follows from the candidates";
  EXPECT_EQ(decide(of_costs({1, 2, 3}), 1), std::nullopt) << "nobody asks why";
}

TEST(DecisionLogTest, AOneCandidateLogKeepsTheChosen) {
  DecisionLog log({.decisions = 1, .candidates = 1});
  decide(log, 1, of_costs({1, 2, 3}, {1}), 2);
  EXPECT_THAT(workers_of(log.newest(0)), ElementsAre(2));
}

}  // namespace
}  // namespace kvist::routing::decision_log_test
