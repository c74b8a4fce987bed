#include "kvist/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kvist::dispatch::dispatcher_test {
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

TEST_F(DispatcherTest, ADecisionIsToldOfHowItsRequestEndedInTheWordOfTheMetrics) {
  for (const Outcome outcome : {Outcome::kClientGone, Outcome::kRefused}) {
    dispatcher_.finish(start().handle, outcome, now_);
    EXPECT_EQ(router_.log().newest(0).after.failure, to_string(outcome));
  }
  dispatcher_.finish(start().handle, Outcome::kCompleted, now_);
  EXPECT_EQ(router_.log().newest(0).after.failure, "");
}

TEST_F(DispatcherTest, ACarriedRequestIsNeverGivenToAnotherWorkerFromHere) {
  auto ticket = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .carried = true}, now_);
  ASSERT_TRUE(ticket);
  EXPECT_FALSE(dispatcher_.leave(ticket->handle, AttemptFailure::kSilent, now_));
  EXPECT_FALSE(dispatcher_.on_attempt_failed(ticket->handle, AttemptFailure::kTransport, "refused", now_));
  dispatcher_.finish(ticket->handle, Outcome::kUpstreamFailed, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, TheProxyThatCarriesARequestSaysWhoServedIt) {
  const auto ticket =
      dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .carried = true, .fallbacks = 2}, now_);
  ASSERT_TRUE(ticket);
  ASSERT_EQ(ticket->decision.fallbacks.size(), 2U);
  const WorkerId other = ticket->decision.fallbacks[0];
  EXPECT_NE(other, ticket->decision.worker);
  fleet_.on_failure(other, "in doubt", now_);  // the proxy has decided, whatever is known of the worker
  const auto moved = dispatcher_.on_served_by(ticket->handle, other, "not reached", now_);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->worker, other);
  EXPECT_EQ(router_.loads().load(other).requests, 1U);
  EXPECT_EQ(router_.loads().load(ticket->decision.worker), routing::WorkerLoad{});
  EXPECT_EQ(router_.log().newest(1).after.state, routing::AttemptState::kFailed);
  dispatcher_.finish(ticket->handle, Outcome::kCompleted, now_);
  EXPECT_EQ(outcomes(other, Outcome::kCompleted), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, WorkersThatAreExcludedFromTheStartAreNotChosenNorNamed) {
  for (int i = 0; i < 4; ++i) {
    const auto ticket = dispatcher_.start({.prompt_tokens = 10,
                                           .blocks = nullptr,
                                           .repeatable = i % 2 == 0,
                                           .excluded = {WorkerId(0), WorkerId(2)},
                                           .fallbacks = 2},
                                          now_);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(ticket->decision.worker, WorkerId(1));
    EXPECT_TRUE(ticket->decision.fallbacks.empty());
    dispatcher_.finish(ticket->handle, Outcome::kCompleted, now_);
  }
  const auto none = dispatcher_.start(
      {.prompt_tokens = 10, .blocks = nullptr, .excluded = {WorkerId(0), WorkerId(1), WorkerId(2)}}, now_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
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
  EXPECT_EQ(dispatcher_.counters().retries(), 2U);
  EXPECT_EQ(outcomes(third->worker, Outcome::kUpstreamFailed), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, ABegunAnswerGoesOnAnywhereButAtTheWorkerThatJustFailed) {
  const Ticket ticket = start();
  const WorkerId first = ticket.decision.worker;
  const auto second = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "503", now_);
  ASSERT_TRUE(second);
  dispatcher_.on_first_token(second->request, now_);
  dispatcher_.on_progress(second->request, 6, now_);
  const auto third = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_, 7);
  ASSERT_TRUE(third);
  EXPECT_NE(third->worker, second->worker);
  EXPECT_EQ(router_.loads().load(third->worker).prefill_tokens, 107U) << "the prompt, and what the client has";
  EXPECT_EQ(router_.loads().load(second->worker), routing::WorkerLoad{});
  dispatcher_.on_first_token(third->request, now_);
  // The second failure of this kind costs nothing, because the worker is in doubt from here on.
  const auto fourth = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_, 20);
  ASSERT_TRUE(fourth);
  EXPECT_NE(fourth->worker, third->worker);
  EXPECT_NE(fourth->worker, second->worker) << "it is in doubt";
  EXPECT_TRUE(third->worker == first || fourth->worker == first) << "its refusal is old";
  EXPECT_EQ(router_.loads().load(fourth->worker).prefill_tokens, 120U) << "the prompt counts once";
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ARestartedWorkerIsANewOneForTheRequestsThatItsPredecessorLost) {
  const Ticket ticket = start();
  const WorkerId first = ticket.decision.worker;
  dispatcher_.on_first_token(ticket.decision.request, now_);
  auto next = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_, 8);
  // Each of the others dies before it has generated anything more; only the first one has been restarted by then.
  fleet_.on_success(first, now_);
  dispatcher_.on_worker_restarted(first, now_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(next);
    const WorkerId dead = next->worker;
    next = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_, 8);
    for (int failures = 0; failures < 3; ++failures) fleet_.on_failure(dead, "gone", now_);
  }
  ASSERT_TRUE(next);
  EXPECT_EQ(next->worker, first);
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ARequestUnderWhichEveryWorkerDiesIsGivenUp) {
  constexpr std::uint32_t kWorkers = 12;
  for (const double budget : {0.0, 20.0}) {
    Fleet fleet(std::vector<std::string>(kWorkers, "w"), {});
    routing::Router router({.model = "m", .block_size = 4, .workers = kWorkers, .mode = spec::RoutingMode::kKv});
    Dispatcher dispatcher(
        {.max_in_flight = 4, .max_retries = 2, .retry_budget = {.per_request = 0, .per_second = 0, .at_start = budget}},
        fleet, router);
    for (std::uint32_t w = 0; w < kWorkers; ++w) fleet.on_success(WorkerId(w), now_);
    const auto ticket = dispatcher.start({.prompt_tokens = 100, .blocks = nullptr}, now_);
    ASSERT_TRUE(ticket);
    std::optional<routing::Decision> next = ticket->decision;
    std::uint32_t attempts = 0;
    while (next && attempts < 100) {
      const WorkerId dead = next->worker;
      ++attempts;
      next = dispatcher.on_attempt_failed(ticket->handle, AttemptFailure::kTransport, "reset", now_);
      now_ += std::chrono::seconds(20);  // the next process is there, and as good as the one before
      fleet.on_success(dead, now_);
      dispatcher.on_worker_restarted(dead, now_);
    }
    EXPECT_EQ(attempts, budget == 0 ? 3U : 5U);
    EXPECT_EQ(dispatcher.counters().free_retries, 2U);
    EXPECT_EQ(dispatcher.counters().paid_retries, budget == 0 ? 0U : 2U);
    dispatcher.finish(ticket->handle, Outcome::kUpstreamFailed, now_);
  }
}

TEST_F(DispatcherTest, AnAnswerThatGoesOnFromWorkerToWorkerIsNotGivenUp) {
  for (const std::uint32_t tokens_per_worker : {1U, 50U}) {
    const Ticket ticket = start();
    std::optional<routing::Decision> next = ticket.decision;
    std::uint32_t attempts = 0;
    while (next && attempts < 30) {
      const WorkerId dead = next->worker;
      dispatcher_.on_first_token(next->request, now_);
      ++attempts;
      next = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now_,
                                           attempts * tokens_per_worker);
      now_ += std::chrono::seconds(20);
      fleet_.on_success(dead, now_);
      dispatcher_.on_worker_restarted(dead, now_);
    }
    EXPECT_EQ(attempts, tokens_per_worker == 1 ? 5U : 30U);
    dispatcher_.finish(ticket.handle, Outcome::kUpstreamFailed, now_);
  }
  expect_no_load();
}

TEST_F(DispatcherTest, WithoutABudgetTheRouterIsNotAskedForAnotherWorker) {
  for (int i = 0; i < 5; ++i) {
    const Ticket ticket = start();
    (void)dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "429", now_);
    dispatcher_.finish(ticket.handle, Outcome::kBackPressure, now_);
  }
  const std::uint64_t decisions = router_.log().total();
  const Ticket ticket = start();
  EXPECT_FALSE(dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "429", now_));
  EXPECT_EQ(router_.log().total(), decisions + 1) << "it would keep where it sent a session";
  EXPECT_EQ(dispatcher_.counters().retries_over_budget, 1U);
  dispatcher_.finish(ticket.handle, Outcome::kBackPressure, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, AWorkerThatWasRemovedServesNobodyAnyMore) {
  const auto ticket =
      dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .carried = true, .fallbacks = 2}, now_);
  ASSERT_TRUE(ticket);
  const WorkerId removed = ticket->decision.fallbacks.at(0);
  dispatcher_.on_worker_removed(removed, now_);
  EXPECT_FALSE(dispatcher_.on_served_by(ticket->handle, removed, "not reached", now_));
  EXPECT_FALSE(dispatcher_.uses(removed));
  dispatcher_.forget(removed);
  dispatcher_.finish(ticket->handle, Outcome::kCompleted, now_);
  EXPECT_EQ(outcomes(ticket->decision.worker, Outcome::kCompleted), 1U);
  expect_no_load();
}

TEST_F(DispatcherTest, WhatARemovalBreaksOffIsNotTheWorkersFailure) {
  const Ticket begun = start();
  const Ticket other = start();
  for (const Ticket* ticket : {&begun, &other}) dispatcher_.on_worker_removed(ticket->decision.worker, now_);
  dispatcher_.on_stream_broken(begun.handle, "reset", now_);
  (void)dispatcher_.on_attempt_failed(other.handle, AttemptFailure::kRemoved, "reset", now_);
  for (const Ticket* ticket : {&begun, &other}) {
    EXPECT_EQ(fleet_.worker(ticket->decision.worker).failures, 0U);
    EXPECT_EQ(fleet_.worker(ticket->decision.worker).last_problem, "removed");
  }
  dispatcher_.finish(begun.handle, Outcome::kBrokenStream, now_);
  dispatcher_.finish(other.handle, Outcome::kUpstreamFailed, now_);
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
  EXPECT_EQ(dispatcher_.counters().retries(), 0U);
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
  EXPECT_EQ(dispatcher_.counters().retries(), 5U);
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
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::seconds(1)).stalled.empty());
  EXPECT_EQ(dispatcher_.check(now_ + std::chrono::seconds(3)).stalled, std::vector<WorkerId>{worker});
  EXPECT_FALSE(fleet_.views()[worker.value()].available);
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::seconds(4)).stalled.empty()) << "told once";
  const auto next = dispatcher_.leave(first->handle, AttemptFailure::kStalled, now_ + std::chrono::seconds(4));
  ASSERT_TRUE(next);
  EXPECT_NE(next->worker, worker);
  EXPECT_EQ(fleet_.worker(worker).failures, 0U) << "its health checks speak for themselves";
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::seconds(5)).stalled.empty());
  EXPECT_FALSE(fleet_.views()[worker.value()].available) << "it is silent";
  dispatcher_.on_sign_of_life(worker, now_ + std::chrono::seconds(5));
  (void)dispatcher_.check(now_ + std::chrono::seconds(5));
  EXPECT_TRUE(fleet_.views()[worker.value()].available) << "it lives, and without work it cannot stall";
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, ProgressEndsAStall) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  ASSERT_EQ(dispatcher_.check(now_ + std::chrono::seconds(3)).stalled.size(), 1U);
  dispatcher_.on_first_token(first->decision.request, now_ + std::chrono::seconds(4));
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::seconds(5)).stalled.empty());
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
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::minutes(5)).stalled.empty()) << "its client is slow";
  now_ += std::chrono::minutes(5);
  dispatcher_.on_resumed(first->handle, now_);
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::seconds(1)).stalled.empty());
  EXPECT_EQ(dispatcher_.check(now_ + std::chrono::seconds(3)).stalled, std::vector<WorkerId>{worker});
  dispatcher_.on_paused(first->handle);
  dispatcher_.finish(first->handle, Outcome::kClientGone, now_);
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::minutes(9)).stalled.empty()) << "it has no work";
  expect_no_load();
}

TEST_F(DispatcherTest, AnAnswerInOnePieceIsSilentUntilItIsComplete) {
  const Ticket ticket = start();
  EXPECT_TRUE(dispatcher_.check(now_ + std::chrono::minutes(5)).stalled.empty());
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
}

TEST_F(DispatcherTest, WithoutAnotherWorkerAStalledRequestStays) {
  const auto first = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(first);
  for (std::uint32_t w = 0; w < 3; ++w) {
    for (int i = 0; i < 3 && WorkerId(w) != first->decision.worker; ++i) fleet_.on_failure(WorkerId(w), "down", now_);
  }
  ASSERT_EQ(dispatcher_.check(now_ + std::chrono::seconds(3)).stalled.size(), 1U);
  EXPECT_FALSE(dispatcher_.leave(first->handle, AttemptFailure::kStalled, now_ + std::chrono::seconds(3)));
  EXPECT_EQ(router_.loads().load(first->decision.worker).requests, 1U);
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

// The only other worker with the adapter is in doubt, so that it is not available while one without it is healthy.
TEST_F(DispatcherTest, ARequestForAnAdapterLeavesForWhoHasItInWhateverHealth) {
  for (const std::uint32_t w : {0U, 1U}) fleet_.set_adapters(WorkerId(w), {"sql"});
  const auto first =
      dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .adapter = "sql", .streams = true}, now_);
  ASSERT_TRUE(first);
  const WorkerId worker = first->decision.worker;
  const WorkerId other(1 - worker.value());
  fleet_.on_server_error(other, "500", now_);
  ASSERT_FALSE(fleet_.views()[other.value()].available);
  ASSERT_EQ(dispatcher_.check(now_ + std::chrono::seconds(3)).stalled, std::vector<WorkerId>{worker});

  fleet_.set_stalled(other, true, now_);
  EXPECT_FALSE(dispatcher_.leave(first->handle, AttemptFailure::kStalled, now_ + std::chrono::seconds(3)))
      << "there it would be no better";
  EXPECT_EQ(router_.loads().load(worker).requests, 1U) << "and it stays";

  fleet_.set_stalled(other, false, now_);
  const auto next = dispatcher_.leave(first->handle, AttemptFailure::kStalled, now_ + std::chrono::seconds(3));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->worker, other);
  dispatcher_.finish(first->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

/// A worker fails every attempt in a way, and the others do not. Returns how many of the requests it was given.
class OneBadWorker : public DispatcherTest {
 protected:
  /// Runs a request to its end. Returns the workers it was at.
  std::vector<WorkerId> run(WorkerId bad, AttemptFailure failure) {
    auto ticket = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr}, now_);
    EXPECT_TRUE(ticket);
    std::vector<WorkerId> tried{ticket->decision.worker};
    routing::RequestHandle attempt = ticket->decision.request;
    while (tried.back() == bad) {
      now_ += std::chrono::milliseconds(1);
      const auto next = dispatcher_.on_attempt_failed(ticket->handle, failure, "it fails", now_);
      if (!next) break;
      now_ += std::chrono::milliseconds(1);
      tried.push_back(next->worker);
      attempt = next->request;
    }
    const bool good = tried.back() != bad;
    if (good) dispatcher_.on_first_token(attempt, now_);
    dispatcher_.finish(ticket->handle, good ? Outcome::kCompleted : Outcome::kUpstreamFailed, now_);
    fleet_.on_success(bad, now_);  // its health checks find nothing
    now_ += std::chrono::milliseconds(10);
    return tried;
  }
  std::uint64_t failures(WorkerId worker, AttemptFailure failure) const {
    return dispatcher_.counters().failures[worker.value()][static_cast<std::size_t>(failure)];
  }
  double observations(WorkerId worker) const {
    return static_cast<double>(router_.forecaster().model(worker).first_token_error().observations);
  }
  const WorkerId bad_{1};
};

class OneBadWorkerOf : public OneBadWorker, public ::testing::WithParamInterface<AttemptFailure> {};

TEST_P(OneBadWorkerOf, IsEjectedAfterFiveFailuresAndNoClientNotices) {
  for (int i = 0; i < 60; ++i) EXPECT_NE(run(bad_, GetParam()).back(), bad_) << "request " << i;
  EXPECT_EQ(failures(bad_, GetParam()), 5U);
  EXPECT_EQ(fleet_.worker(bad_).ejection, Ejection::kOut);
  EXPECT_EQ(dispatcher_.outliers().worker(bad_).failure, GetParam());
  EXPECT_EQ(observations(bad_), 0) << "a failure is no fast answer";
  expect_no_load();
}

// A refusal has cost nothing; an answer that is too large was computed. Those that were under way when the first one
// came are free all the same.
TEST_F(OneBadWorker, TheOtherOpinionOnAnAnswerThatIsTooLargeIsPaid) {
  const auto until_it_failed = [&](AttemptFailure failure) {
    while (run(bad_, failure).front() != bad_) {
    }
  };
  until_it_failed(AttemptFailure::kUnauthorized);
  EXPECT_EQ(dispatcher_.counters().free_retries, 1U);
  EXPECT_EQ(dispatcher_.counters().paid_retries, 0U);
  until_it_failed(AttemptFailure::kTooLarge);
  EXPECT_EQ(dispatcher_.counters().free_retries, 2U);
  EXPECT_EQ(dispatcher_.counters().paid_retries, 0U);
  until_it_failed(AttemptFailure::kTooLarge);
  EXPECT_EQ(dispatcher_.counters().free_retries, 2U);
  EXPECT_EQ(dispatcher_.counters().paid_retries, 1U);
}

TEST_P(OneBadWorkerOf, IsEjectedForTwiceAsLongWhenItFailsItsTrial) {
  for (int i = 0; i < 30; ++i) (void)run(bad_, GetParam());
  ASSERT_EQ(fleet_.worker(bad_).ejection, Ejection::kOut);
  const Duration first = dispatcher_.outliers().worker(bad_).time;
  now_ += first;
  std::size_t tried = 0;
  for (int i = 0; i < 30; ++i) tried += run(bad_, GetParam()).front() == bad_ ? 1 : 0;
  EXPECT_EQ(tried, 1U);
  EXPECT_EQ(fleet_.worker(bad_).ejection, Ejection::kOut);
  EXPECT_EQ(dispatcher_.outliers().worker(bad_).rule, EjectionRule::kTrialFailed);
  EXPECT_EQ(dispatcher_.outliers().worker(bad_).time, 2 * first);
}

INSTANTIATE_TEST_SUITE_P(Failures, OneBadWorkerOf,
                         ::testing::Values(AttemptFailure::kServerError, AttemptFailure::kGarbage,
                                           AttemptFailure::kTransport, AttemptFailure::kUnauthorized,
                                           AttemptFailure::kWrongModel, AttemptFailure::kTooLarge,
                                           AttemptFailure::kBackPressure),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_F(OneBadWorker, ComesBackWithTheFirstGoodAnswer) {
  for (int i = 0; i < 30; ++i) (void)run(bad_, AttemptFailure::kGarbage);
  ASSERT_EQ(fleet_.worker(bad_).ejection, Ejection::kOut);
  now_ += std::chrono::seconds(5);
  std::uint64_t probes = 0;
  for (int i = 0; i < 6; ++i) {
    const Ticket ticket = start();
    probes += ticket.decision.worker == bad_ ? 1 : 0;
    dispatcher_.on_first_token(ticket.decision.request, now_);
    dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  }
  EXPECT_EQ(fleet_.worker(bad_).ejection, Ejection::kIn);
  EXPECT_GE(probes, 1U);
}

// Half of the usable workers may be ejected, which is one of those that are left.
TEST_F(OneBadWorker, IsEjectedThoughAnotherOneDiedAfterItsEjection) {
  for (int i = 0; i < 60; ++i) (void)run(WorkerId(0), AttemptFailure::kServerError);
  ASSERT_EQ(fleet_.worker(WorkerId(0)).ejection, Ejection::kOut);
  for (int i = 0; i < 3; ++i) fleet_.on_failure(WorkerId(0), "connection refused", now_);
  for (int i = 0; i < 60; ++i) (void)run(bad_, AttemptFailure::kServerError);
  EXPECT_EQ(fleet_.worker(bad_).ejection, Ejection::kOut);
  EXPECT_EQ(failures(bad_, AttemptFailure::kServerError), 5U);
}

TEST_F(OneBadWorker, IsTriedOutByOneRequestAtATime) {
  for (int i = 0; i < 30; ++i) (void)run(bad_, AttemptFailure::kGarbage);
  now_ += std::chrono::seconds(5);
  std::vector<Ticket> tickets;
  std::uint64_t there = 0;
  for (int i = 0; i < 4; ++i) {
    tickets.push_back(start());
    there += tickets.back().decision.worker == bad_ ? 1 : 0;
  }
  EXPECT_EQ(there, 1U);
  for (const Ticket& ticket : tickets) dispatcher_.finish(ticket.handle, Outcome::kClientGone, now_);
  EXPECT_EQ(fleet_.worker(bad_).ejection, Ejection::kTrial) << "a client that left says nothing";
  const auto once = dispatcher_.start({.prompt_tokens = 1, .blocks = nullptr, .repeatable = false}, now_);
  ASSERT_TRUE(once);
  EXPECT_NE(once->decision.worker, bad_) << "what may be done only once is no test";
  dispatcher_.finish(once->handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, WhatAllWorkersRefuseIsTheClientsFault) {
  for (int i = 0; i < 20; ++i) {
    const Ticket ticket = start();
    const auto second = dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kUnauthorized, "401", now_);
    ASSERT_TRUE(second) << "the first refusal is always held against another worker";
    (void)dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kUnauthorized, "401", now_);
    dispatcher_.finish(ticket.handle, Outcome::kRefused, now_);
  }
  for (std::uint32_t w = 0; w < 3; ++w) {
    EXPECT_EQ(fleet_.worker(WorkerId(w)).ejection, Ejection::kIn);
    EXPECT_EQ(fleet_.worker(WorkerId(w)).health, WorkerHealth::kHealthy);
    EXPECT_EQ(dispatcher_.outliers().worker(WorkerId(w)).failures_in_a_row, 0U);
  }
  EXPECT_EQ(dispatcher_.counters().free_retries, 20U);
  EXPECT_EQ(dispatcher_.counters().paid_retries, 5U) << "further opinions are paid for";
  expect_no_load();
}

TEST_F(DispatcherTest, AWorkerThatIsFullHasWorkAndIsNotEjected) {
  const auto stream = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(stream);
  dispatcher_.on_first_token(stream->decision.request, now_);
  const WorkerId worker = stream->decision.worker;
  for (int i = 0; i < 60; ++i) {
    const Ticket ticket = start();
    if (ticket.decision.worker == worker)
      (void)dispatcher_.on_attempt_failed(ticket.handle, AttemptFailure::kBackPressure, "429", now_);
    dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  }
  EXPECT_EQ(fleet_.worker(worker).ejection, Ejection::kIn);
  dispatcher_.finish(stream->handle, Outcome::kCompleted, now_);
}

TEST(DispatcherBudget, WhatAWorkerJustFoundDeadCostsIsNotCharged) {
  const TimePoint now{std::chrono::seconds(1)};
  Fleet fleet({"a", "b", "c"}, {});
  routing::Router router(
      {.model = "m", .block_size = 4, .workers = 3, .mode = spec::RoutingMode::kRoundRobin, .seed = 1});
  for (std::uint32_t w = 0; w < 3; ++w) fleet.on_success(WorkerId(w), now);
  Dispatcher dispatcher({.retry_budget = {.per_request = 0, .per_second = 0, .at_start = 1}}, fleet, router);
  std::vector<Ticket> at_dead;
  for (int i = 0; i < 200; ++i) {
    const auto ticket = dispatcher.start({.prompt_tokens = 10, .blocks = nullptr}, now);
    ASSERT_TRUE(ticket);
    if (ticket->decision.worker == WorkerId(0)) at_dead.push_back(*ticket);
  }
  ASSERT_GT(at_dead.size(), 60U);
  for (const Ticket& ticket : at_dead) {
    const auto next = dispatcher.on_attempt_failed(ticket.handle, AttemptFailure::kTransport, "reset", now);
    ASSERT_TRUE(next);
    EXPECT_NE(next->worker, WorkerId(0));
  }
  EXPECT_EQ(dispatcher.counters().free_retries, at_dead.size());
  EXPECT_EQ(dispatcher.counters().paid_retries, 0U);
  // What goes to a worker that is known to be in doubt is paid for.
  for (std::uint32_t w = 1; w < 3; ++w) fleet.on_failure(WorkerId(w), "down", now);
  const TimePoint later = now + std::chrono::seconds(1);
  const auto known = dispatcher.start({.prompt_tokens = 10, .blocks = nullptr}, later);
  ASSERT_TRUE(known);
  EXPECT_TRUE(dispatcher.on_attempt_failed(known->handle, AttemptFailure::kTransport, "reset", later));
  EXPECT_EQ(dispatcher.counters().paid_retries, 1U);
}

TEST_F(DispatcherTest, ARequestLeavesASilentWorkerAfterItsPatience) {
  const Ticket ticket = start();  // its answer comes in one piece
  const WorkerId worker = ticket.decision.worker;
  const auto at = [&](int ms) { return now_ + std::chrono::milliseconds(ms); };
  EXPECT_TRUE(dispatcher_.check(at(900)).ask.empty());
  EXPECT_EQ(dispatcher_.check(at(1'000)).ask, std::vector<WorkerId>{worker});
  EXPECT_TRUE(dispatcher_.check(at(1'900)).leave.empty());
  const Dispatcher::Findings found = dispatcher_.check(at(2'000));
  ASSERT_EQ(found.leave.size(), 1U);
  EXPECT_EQ(found.leave[0].request, ticket.handle);
  EXPECT_EQ(found.leave[0].worker, worker);
  EXPECT_FALSE(fleet_.views()[worker.value()].available);
  const auto next = dispatcher_.leave(ticket.handle, AttemptFailure::kSilent, at(2'000));
  ASSERT_TRUE(next);
  EXPECT_NE(next->worker, worker);
  EXPECT_EQ(dispatcher_.counters().free_retries, 1U);
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, at(2'100));
  expect_no_load();
}

// Nobody sees the first token of an answer in one piece. That one is assumed shows no life.
TEST_F(DispatcherTest, ARequestLeavesASilentWorkerThoughItsFirstTokenIsAssumed) {
  const Ticket ticket = start();
  const WorkerId worker = ticket.decision.worker;
  const auto at = [&](int ms) { return now_ + std::chrono::milliseconds(ms); };
  EXPECT_EQ(dispatcher_.check(at(1'000)).ask, std::vector<WorkerId>{worker});
  const auto other = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr}, at(1'500));
  ASSERT_TRUE(other);
  ASSERT_NE(other->decision.worker, worker);
  ASSERT_EQ(router_.loads().load(worker).decoding, 1U) << "the decision assumed it";
  const Dispatcher::Findings found = dispatcher_.check(at(2'000));
  ASSERT_EQ(found.leave.size(), 1U);
  EXPECT_EQ(found.leave[0].request, ticket.handle);
  EXPECT_FALSE(fleet_.views()[worker.value()].available);
  EXPECT_TRUE(dispatcher_.leave(ticket.handle, AttemptFailure::kSilent, at(2'000)));
  dispatcher_.finish(other->handle, Outcome::kCompleted, at(2'100));
  dispatcher_.finish(ticket.handle, Outcome::kCompleted, at(2'100));
  expect_no_load();
}

TEST_F(DispatcherTest, OtherAnswersOfTheWorkerKeepARequestThere) {
  const auto stream = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(stream);
  std::vector<Ticket> others{start(), start(), start()};
  dispatcher_.on_first_token(stream->decision.request, now_);
  for (int ms = 100; ms < 60'000; ms += 100) {
    const TimePoint now = now_ + std::chrono::milliseconds(ms);
    dispatcher_.on_progress(stream->decision.request, 1, now);
    for (const auto& leaving : dispatcher_.check(now).leave) EXPECT_NE(leaving.worker, stream->decision.worker);
  }
  for (const Ticket& ticket : others) dispatcher_.finish(ticket.handle, Outcome::kCompleted, now_);
  dispatcher_.finish(stream->handle, Outcome::kCompleted, now_);
}

TEST_F(DispatcherTest, AStreamLeavesAWorkerThatAnswersHealthChecksOnlyMuchLater) {
  const auto stream = dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_);
  ASSERT_TRUE(stream);
  int hung_ms = 0;
  for (int ms = 100; ms < 60'000 && hung_ms == 0; ms += 100) {
    const TimePoint now = now_ + std::chrono::milliseconds(ms);
    const Dispatcher::Findings found = dispatcher_.check(now);
    EXPECT_TRUE(found.leave.empty());
    for (const WorkerId worker : found.ask) dispatcher_.on_sign_of_life(worker, now);
    if (!found.hung.empty()) hung_ms = ms;
  }
  EXPECT_EQ(hung_ms, 10'100) << "five times two seconds";
  EXPECT_TRUE(dispatcher_.leave(stream->handle, AttemptFailure::kStalled, now_ + std::chrono::seconds(11)));
  EXPECT_EQ(dispatcher_.counters().paid_retries, 1U) << "it may have been a mistake, so it is paid for";
  dispatcher_.finish(stream->handle, Outcome::kCompleted, now_ + std::chrono::seconds(12));
  expect_no_load();
}

TEST_F(DispatcherTest, WhoHadToStayForWantOfARetryLeavesWhenThereIsOne) {
  Dispatcher dispatcher({.retry_budget = {.per_request = 0, .per_second = 0.5, .most = 1, .at_start = 1}}, fleet_,
                        router_);
  std::vector<Ticket> waiting;
  for (int i = 0; i < 9; ++i)
    waiting.push_back(*dispatcher.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_));
  const WorkerId dead = waiting[0].decision.worker;
  std::erase_if(waiting, [&](const Ticket& ticket) {
    if (ticket.decision.worker == dead) return false;
    dispatcher.finish(ticket.handle, Outcome::kCompleted, now_);
    return true;
  });
  ASSERT_EQ(waiting.size(), 3U);
  std::vector<DispatchHandle> gone;
  TimePoint now = now_;
  // Its health checks are good, and no further request comes that would pay into the budget.
  while (gone.size() < waiting.size() && now < now_ + std::chrono::seconds(60)) {
    now += std::chrono::milliseconds(100);
    const Dispatcher::Findings found = dispatcher.check(now);
    for (const WorkerId worker : found.ask) dispatcher.on_sign_of_life(worker, now);
    if (std::ranges::find(found.hung, dead) == found.hung.end()) continue;
    for (const Ticket& ticket : waiting) {
      if (std::ranges::find(gone, ticket.handle) != gone.end()) continue;
      if (const auto next = dispatcher.leave(ticket.handle, AttemptFailure::kStalled, now)) {
        gone.push_back(ticket.handle);
        dispatcher.on_first_token(next->request, now);
      }
    }
  }
  EXPECT_EQ(gone.size(), 3U);
  EXPECT_LT(now, now_ + std::chrono::seconds(16)) << "five times two seconds, then one in two seconds";
  EXPECT_EQ(dispatcher.counters().paid_retries, 3U);
  EXPECT_EQ(fleet_.worker(dead).ejection, Ejection::kIn) << "too few failures in a row";
  for (const Ticket& ticket : waiting) dispatcher.finish(ticket.handle, Outcome::kCompleted, now);
  EXPECT_EQ(router_.loads().requests(), 0U);
}

TEST_F(DispatcherTest, WhoHadToStayForWantOfAnotherWorkerIsAskedAgainWhenThereIsOne) {
  const auto start_stream = [&](TimePoint now) {
    return *dispatcher_.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now);
  };
  std::vector<Ticket> streams{start_stream(now_)};
  const WorkerId hung = streams[0].decision.worker;
  for (std::uint32_t w = 0; w < 3; ++w)
    for (int i = 0; i < 3 && WorkerId(w) != hung; ++i) fleet_.on_failure(WorkerId(w), "down", now_);
  std::vector<int> asked_s;
  std::size_t moved = 0;
  for (int ms = 100; ms < 120'000; ms += 100) {
    const TimePoint now = now_ + std::chrono::milliseconds(ms);
    if (ms == 15'000) streams.push_back(start_stream(now));
    if (ms == 20'000) fleet_.set_limits(hung, {.kv_blocks = 500});  // which is no other worker
    for (std::uint32_t w = 0; w < 3; ++w)
      if (ms == 30'000 && WorkerId(w) != hung) fleet_.on_success(WorkerId(w), now);
    if (ms == 60'000) fleet_.set_limits(hung, {.kv_blocks = 600});
    const Dispatcher::Findings found = dispatcher_.check(now);
    dispatcher_.on_sign_of_life(hung, now);
    if (std::ranges::find(found.hung, hung) == found.hung.end()) continue;
    asked_s.push_back(ms / 1'000);
    for (const Ticket& stream : streams) {
      const auto next = dispatcher_.leave(stream.handle, AttemptFailure::kStalled, now);
      if (!next) continue;
      ++moved;
      EXPECT_NE(next->worker, hung);
      dispatcher_.on_first_token(next->request, now);
    }
  }
  EXPECT_EQ(asked_s, (std::vector<int>{10, 30})) << "once, and once when the others were back";
  EXPECT_EQ(moved, 2U);
  EXPECT_EQ(dispatcher_.counters().paid_retries, 2U);
  for (const Ticket& stream : streams) dispatcher_.finish(stream.handle, Outcome::kCompleted, now_);
  expect_no_load();
}

TEST_F(DispatcherTest, AWorkerThatOnlyAnswersHealthChecksIsEjected) {
  Dispatcher dispatcher({.retry_budget = {.at_start = 20}}, fleet_, router_);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 18; ++i)
    tickets.push_back(*dispatcher.start({.prompt_tokens = 100, .blocks = nullptr, .streams = true}, now_));
  const WorkerId dead = tickets[0].decision.worker;
  for (const Ticket& ticket : tickets)
    if (ticket.decision.worker != dead) dispatcher.on_first_token(ticket.decision.request, now_);
  const TimePoint now = now_ + std::chrono::seconds(11);
  int left = 0;
  for (const Ticket& ticket : tickets) {
    if (ticket.decision.worker == dead) left += dispatcher.leave(ticket.handle, AttemptFailure::kStalled, now) ? 1 : 0;
  }
  EXPECT_EQ(left, 6);
  EXPECT_EQ(fleet_.worker(dead).ejection, Ejection::kOut);
  for (const Ticket& ticket : tickets) dispatcher.finish(ticket.handle, Outcome::kCompleted, now);
  EXPECT_EQ(router_.loads().requests(), 0U);
}

/// Of 120 requests at once to three workers of which each computes a prompt in half a second, how many are refused if
/// nobody may wait for more than 2 s.
std::size_t refused_at_once(bool streams) {
  TimePoint now{std::chrono::seconds(1)};
  Fleet fleet({"a", "b", "c"}, {});
  for (std::uint32_t w = 0; w < 3; ++w) {
    fleet.on_success(WorkerId(w), now);
    fleet.set_limits(WorkerId(w), {.block_size = 16, .kv_blocks = 400'000, .max_batch_size = 256});
  }
  routing::Router router({.model = "m", .block_size = 16, .workers = 3, .mode = spec::RoutingMode::kKv});
  Dispatcher dispatcher({.admission = spec::AdmissionSpec{.max_wait = std::chrono::seconds(2)}}, fleet, router);
  const RequestProfile profile{.prompt_tokens = 2'000, .blocks = nullptr, .streams = streams};
  constexpr std::uint32_t kTokens = 20;
  for (int i = 0; i < 300; ++i, now += std::chrono::seconds(1)) {
    const Ticket ticket = *dispatcher.start(profile, now);
    const routing::RequestHandle attempt = ticket.decision.request;
    const auto at = [&](std::uint32_t token) { return now + std::chrono::milliseconds(560 + 21 * token); };
    if (streams) {
      dispatcher.on_first_token(attempt, at(0));
      for (std::uint32_t token = 1; token <= kTokens; ++token) dispatcher.on_progress(attempt, 1, at(token));
    } else {
      dispatcher.on_whole_answer(attempt, {.tokens = kTokens, .prompt_tokens = 2'000, .cached_tokens = 0}, at(kTokens));
    }
    dispatcher.finish(ticket.handle, Outcome::kCompleted, at(kTokens));
  }
  std::size_t refused = 0;
  for (int i = 0; i < 120; ++i) refused += dispatcher.start(profile, now) ? 0 : 1;
  return refused;
}

TEST_F(DispatcherTest, NobodyWaitsForLongerThanTheBoundThoughNobodyStreams) {
  EXPECT_GE(refused_at_once(true), 80U);
  EXPECT_GE(refused_at_once(false), 80U);
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
}  // namespace kvist::dispatch::dispatcher_test
