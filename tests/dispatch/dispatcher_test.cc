#include "kvist/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include <set>

namespace kvist::dispatch {
namespace {

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    for (std::uint32_t w = 0; w < 3; ++w) fleet_.on_success(WorkerId(w), now_);
  }

  Ticket start() {
    auto ticket = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr}, now_);
    EXPECT_TRUE(ticket);
    return *ticket;
  }
  std::uint64_t outcomes(WorkerId worker, Outcome outcome) const {
    return dispatcher_.counters().by_worker[worker.value()].of(outcome);
  }
  void expect_no_load() {
    EXPECT_EQ(dispatcher_.in_flight(), 0U);
    EXPECT_EQ(router_.loads().requests(), 0U);
    for (std::uint32_t w = 0; w < 3; ++w) EXPECT_EQ(router_.loads().load(WorkerId(w)), routing::WorkerLoad{});
  }

  TimePoint now_{std::chrono::seconds(1)};
  Fleet fleet_{{"a", "b", "c"}, {}};
  routing::Router router_{
      {.model = "m", .block_size = 4, .workers = 3, .mode = spec::RoutingMode::kRoundRobin, .seed = 1}};
  Dispatcher dispatcher_{
      {.max_in_flight = 4, .max_retries = 2, .retry_budget = {.per_request = 0, .per_second = 0, .at_start = 5}},
      fleet_,
      router_};
};

TEST_F(DispatcherTest, ACompletedRequestIsCountedForItsWorkerAndLeavesNoLoad) {
  const Ticket ticket = start();
  EXPECT_EQ(router_.loads().load(ticket.decision.worker).prefill_tokens, 100U);
  dispatcher_.on_first_token(ticket.decision.request, now_);
  dispatcher_.on_progress(ticket.decision.request, 7, now_);
  EXPECT_EQ(router_.loads().load(ticket.decision.worker).output_tokens, 7U);
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  EXPECT_EQ(outcomes(ticket.decision.worker, Outcome::kCompleted), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, AdmitsNoMoreThanTheBound) {
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(start());
  EXPECT_FALSE(dispatcher_.has_room());
  const auto refused = dispatcher_.start({}, now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(dispatcher_.counters().without_worker.of(Outcome::kRejected), 1U);
  dispatcher_.finish(tickets.back().handle, Outcome::kClientGone, now_);
  EXPECT_TRUE(dispatcher_.start({}, now_));
}

TEST_F(DispatcherTest, RetriesOnAnotherWorkerEachTimeUpToTheLimit) {
  const Ticket ticket = start();
  std::set<WorkerId> tried{ticket.decision.worker};
  const auto second = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "refused", now_);
  ASSERT_TRUE(second);
  EXPECT_TRUE(tried.insert(second->worker).second);
  const auto third = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "refused", now_);
  ASSERT_TRUE(third);
  EXPECT_TRUE(tried.insert(third->worker).second);
  EXPECT_FALSE(dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "refused", now_));
  EXPECT_EQ(dispatcher_.in_flight(), 1U) << "the request is there until it is finished";
  dispatcher_.finish(ticket.handle, Outcome::kUpstreamFailed, now_);
  EXPECT_EQ(dispatcher_.counters().retries, 2U);
  EXPECT_EQ(outcomes(third->worker, Outcome::kUpstreamFailed), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, AFailedConnectionCountsAgainstTheWorkersHealth) {
  const Ticket ticket = start();
  ASSERT_TRUE(dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_));
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).health, WorkerHealth::kSuspect);
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).last_problem, "reset");
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
}

TEST_F(DispatcherTest, BackPressureTriesAnotherWorkerAndLeavesHealthAlone) {
  const Ticket ticket = start();
  const auto next = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "503", now_);
  ASSERT_TRUE(next);
  EXPECT_NE(next->worker, ticket.decision.worker);
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).health, WorkerHealth::kHealthy);
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ServerErrorsRaiseDoubtButAloneNeverMakeAWorkerUnhealthy) {
  for (int i = 0; i < 10; ++i) {
    const Ticket ticket = start();
    const auto next = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kServerError, "status 500", now_);
    EXPECT_EQ(fleet_.worker(ticket.decision.worker).health, WorkerHealth::kSuspect);
    EXPECT_EQ(fleet_.worker(ticket.decision.worker).last_problem, "status 500");
    if (next) dispatcher_.on_stream_error(ticket.handle, "an error frame", now_);
    dispatcher_.finish(ticket.handle, Outcome::kWorkerError, now_);
  }
  for (std::uint32_t i = 0; i < fleet_.size(); ++i)
    EXPECT_EQ(fleet_.worker(WorkerId(i)).health, WorkerHealth::kSuspect);
  expect_no_load();
}

TEST_F(DispatcherTest, AnswersAreSignsOfLife) {
  const Ticket ticket = start();
  const auto answered = [&] { return fleet_.worker(ticket.decision.worker).answered; };
  EXPECT_FALSE(answered());
  dispatcher_.finish(ticket.handle, Outcome::kRefused, now_);
  EXPECT_EQ(answered(), now_);
  const Ticket gone = start();
  dispatcher_.finish(gone.handle, Outcome::kClientGone, now_ + std::chrono::seconds(1));
  EXPECT_EQ(answered(), now_) << "a client that left says nothing of the worker";
}

TEST_F(DispatcherTest, AnExpiredRequestIsNotRetried) {
  const Ticket ticket = start();
  EXPECT_FALSE(dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTimedOut, "600 s", now_));
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).health, WorkerHealth::kSuspect);
  dispatcher_.finish(ticket.handle, Outcome::kTimedOut, now_);
  EXPECT_EQ(dispatcher_.counters().retries, 0U);
}

TEST_F(DispatcherTest, ARefusedRequestDoesNotAffectTheWorkersHealth) {
  const Ticket ticket = start();
  dispatcher_.finish(ticket.handle, Outcome::kRefused, now_);
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).health, WorkerHealth::kHealthy);
  EXPECT_EQ(fleet_.worker(ticket.decision.worker).failures, 0U);
}

TEST_F(DispatcherTest, TheBudgetBoundsRetriesAcrossRequests) {
  std::uint64_t retried = 0;
  for (int i = 0; i < 20; ++i) {
    const Ticket ticket = start();
    if (dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "429", now_)) ++retried;
    dispatcher_.finish(ticket.handle, Outcome::kBackPressure, now_);
  }
  EXPECT_EQ(retried, 5U);
  EXPECT_EQ(dispatcher_.counters().retries, 5U);
  EXPECT_EQ(dispatcher_.counters().retries_over_budget, 15U);
  expect_no_load();
}

TEST_F(DispatcherTest, NoWorkerLeftIsAnErrorAndCounted) {
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (int i = 0; i < 3; ++i) fleet_.on_failure(WorkerId(w), "down", now_);
  }
  const auto refused = dispatcher_.start({}, now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(dispatcher_.counters().without_worker.of(Outcome::kNoWorker), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, AStalledStreamTakesItsWorkerOutAndMayBeRetried) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  const WorkerId worker = first->decision.worker;
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::seconds(1)).empty());
  EXPECT_EQ(dispatcher_.check_stalls(now_ + std::chrono::seconds(3)), std::vector<WorkerId>{worker});
  EXPECT_FALSE(fleet_.views()[worker.value()].available);
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::seconds(4)).empty()) << "told once";
  const auto next = dispatcher_.leave_stalled(first->handle, now_ + std::chrono::seconds(4));
  ASSERT_TRUE(next);
  EXPECT_NE(next->worker, worker);
  EXPECT_EQ(fleet_.worker(worker).failures, 0U) << "its health checks speak for themselves";
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::seconds(5)).empty());
  EXPECT_TRUE(fleet_.views()[worker.value()].available) << "without work there is nothing to go on by";
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ProgressEndsAStall) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  ASSERT_EQ(dispatcher_.check_stalls(now_ + std::chrono::seconds(3)).size(), 1U);
  dispatcher_.on_first_token(first->decision.request, now_ + std::chrono::seconds(4));
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::seconds(5)).empty());
  EXPECT_TRUE(fleet_.views()[first->decision.worker.value()].available);
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
}

TEST_F(DispatcherTest, AnAnswerThatIsNotReadIsNoStall) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  const WorkerId worker = first->decision.worker;
  dispatcher_.on_first_token(first->decision.request, now_);
  dispatcher_.on_paused(first->handle);
  dispatcher_.on_paused(first->handle);
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::minutes(5)).empty()) << "its client is slow";
  now_ += std::chrono::minutes(5);
  dispatcher_.on_resumed(first->handle, now_);
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::seconds(1)).empty());
  EXPECT_EQ(dispatcher_.check_stalls(now_ + std::chrono::seconds(3)), std::vector<WorkerId>{worker});
  dispatcher_.on_paused(first->handle);
  dispatcher_.finish(first->handle, Outcome::kClientGone, now_);
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::minutes(9)).empty()) << "it has no work";
  expect_no_load();
}

TEST_F(DispatcherTest, AnAnswerInOnePieceIsSilentUntilItIsComplete) {
  const Ticket ticket = start();
  EXPECT_TRUE(dispatcher_.check_stalls(now_ + std::chrono::minutes(5)).empty());
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
}

TEST_F(DispatcherTest, WithoutAnotherWorkerAStalledRequestStays) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (int i = 0; i < 3 && WorkerId(w) != first->decision.worker; ++i) fleet_.on_failure(WorkerId(w), "down", now_);
  }
  ASSERT_EQ(dispatcher_.check_stalls(now_ + std::chrono::seconds(3)).size(), 1U);
  EXPECT_FALSE(dispatcher_.leave_stalled(first->handle, now_ + std::chrono::seconds(3)));
  EXPECT_EQ(router_.loads().load(first->decision.worker).requests, 1U);
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ComparesThePredictionWithTheEnginesCount) {
  const Ticket first = start();
  dispatcher_.on_usage(first.decision.request, 100, 64);
  dispatcher_.finish(first.handle, Outcome::kCompleted, now_);
  const DispatchCounters& counters = dispatcher_.counters();
  EXPECT_EQ(counters.usage_reports, 1U);
  EXPECT_EQ(counters.prompt_tokens, 100U);
  EXPECT_EQ(counters.predicted_cached_tokens, 0U);
  EXPECT_EQ(counters.cached_tokens, 64U);
  EXPECT_EQ(counters.cached_tokens_absolute_error, 64U);
}

TEST(RetryBudget, IsEarnedByRequestsAndByTimeUpToTheMost) {
  RetryBudget budget({.per_request = 0.5, .per_second = 1, .most = 2, .at_start = 0});
  TimePoint now{std::chrono::seconds(5)};
  EXPECT_FALSE(budget.try_take(now));
  budget.on_request(now);
  EXPECT_FALSE(budget.try_take(now));
  budget.on_request(now);
  EXPECT_TRUE(budget.try_take(now));
  EXPECT_FALSE(budget.try_take(now));
  now += std::chrono::seconds(60);
  EXPECT_TRUE(budget.try_take(now));
  EXPECT_TRUE(budget.try_take(now));
  EXPECT_FALSE(budget.try_take(now));
}

}  // namespace
}  // namespace kvist::dispatch
