#include "kvist/dispatch/warm_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <queue>
#include <vector>

#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch::warm_up_test {
namespace {

TEST(WarmUp, AllowsOneMoreWithEachAnswer) {
  WarmUp warm_up({.requests = 2, .until_answers = 4}, 2);
  const WorkerId worker(1);
  EXPECT_EQ(warm_up.most_waiting(worker), 0U) << "it was there from the start";
  EXPECT_FALSE(warm_up.on_answer(worker));
  warm_up.begin(worker);
  EXPECT_EQ(warm_up.most_waiting(worker), 2U);
  EXPECT_EQ(warm_up.most_waiting(WorkerId(0)), 0U);
  for (const std::uint32_t most : {3U, 4U, 5U}) {
    EXPECT_TRUE(warm_up.on_answer(worker));
    EXPECT_EQ(warm_up.most_waiting(worker), most);
  }
  EXPECT_TRUE(warm_up.on_answer(worker));
  EXPECT_EQ(warm_up.most_waiting(worker), 0U) << "it is known now";
  EXPECT_FALSE(warm_up.on_answer(worker));
  warm_up.begin(worker);
  EXPECT_TRUE(warm_up.on_answer(worker));
  warm_up.begin(worker);
  EXPECT_EQ(warm_up.most_waiting(worker), 2U) << "another process begins anew";
  warm_up.forget(worker);
  EXPECT_EQ(warm_up.most_waiting(worker), 0U);
}

TEST(WarmUp, CanBeTurnedOff) {
  WarmUp warm_up({.requests = 0}, 1);
  warm_up.begin(WorkerId(0));
  EXPECT_EQ(warm_up.most_waiting(WorkerId(0)), 0U);
}

// Of a request that the gateway does not read, or whose answer comes in one piece without usage, nothing is told but
// its end.
TEST(WarmUpOfADispatcher, EndsWithAnswersThatShowNoFirstTokenToo) {
  const TimePoint now{std::chrono::seconds(1)};
  Fleet fleet({"a"}, {});
  fleet.on_success(WorkerId(0), now);
  routing::Router router({.model = "m", .block_size = 16, .workers = 1, .mode = spec::RoutingMode::kKv});
  Dispatcher dispatcher({.warm_up = {.requests = 2, .until_answers = 4}}, fleet, router);
  dispatcher.on_worker_added(WorkerId(0));
  const auto most_waiting = [&] { return fleet.views()[0].most_waiting; };
  const auto request = [&](Outcome outcome, bool tells_first_token, bool generates = true) {
    const Started ticket = dispatcher.start({.prompt_tokens = 100, .blocks = nullptr, .generates = generates}, now);
    ASSERT_TRUE(ticket.has_value());
    if (tells_first_token) dispatcher.on_first_token(ticket->decision.request, now);
    dispatcher.finish(ticket->handle, outcome, now);
  };
  request(Outcome::kCompleted, false);
  EXPECT_EQ(most_waiting(), 3U);
  request(Outcome::kRefused, false);
  request(Outcome::kClientGone, false);
  request(Outcome::kCompleted, false, false);
  EXPECT_EQ(most_waiting(), 3U) << "nothing was computed";
  request(Outcome::kCompleted, true);
  EXPECT_EQ(most_waiting(), 4U) << "once for each";
  for (int i = 0; i < 2; ++i) request(Outcome::kCompleted, false);
  EXPECT_EQ(most_waiting(), 0U) << "it is known now";
}

/// Workers in virtual time that compute one prompt after the other and then stream, behind a dispatcher in mode kv.
/// Requests arrive at a fixed rate, each with a prompt that nobody shares.
class Rollout {
 public:
  static constexpr std::uint32_t kWorkers = 4;
  static constexpr std::uint32_t kNew = 3;  ///< the worker that is not there from the start
  static constexpr std::uint32_t kPromptTokens = 1'000;

  explicit Rollout(const spec::WarmUpSpec& spec) : dispatcher_({.warm_up = spec}, fleet_, router_) {
    for (std::uint32_t w = 0; w < kNew; ++w) fleet_.on_success(WorkerId(w), now_);
  }

  /// The new worker joins.
  void join(Duration prefill) {
    prefill_[kNew] = prefill;
    fleet_.on_success(WorkerId(kNew), now_);
    dispatcher_.on_worker_added(WorkerId(kNew));
  }
  /// Every worker is a new process. Requires: nothing is under way.
  void restart_all() {
    for (std::uint32_t w = 0; w < kWorkers; ++w) dispatcher_.on_worker_restarted(WorkerId(w), now_);
  }
  void run(Duration time, Duration between) {
    const TimePoint end = now_ + time;
    for (TimePoint next = now_; next < end;) {
      if (!events_.empty() && events_.top().at <= next) {
        take_event();
        continue;
      }
      now_ = next;
      arrive();
      next += between;
    }
  }
  void drain() {
    while (!events_.empty()) take_event();
  }

  [[nodiscard]] std::uint32_t given(std::uint32_t worker) const { return given_[worker]; }
  [[nodiscard]] std::uint32_t given_before_answer(std::uint32_t worker) const { return given_before_answer_[worker]; }
  [[nodiscard]] std::uint64_t held_back() const { return router_.held_back(); }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t number;
    DispatchHandle request;
    routing::RequestHandle attempt;
    std::uint32_t worker;
    bool ends;
    bool operator<(const Event& other) const { return std::pair(at, number) > std::pair(other.at, other.number); }
  };

  void arrive() {
    const auto started = dispatcher_.start({.prompt_tokens = kPromptTokens,
                                            .blocks = std::make_shared<const std::vector<kv::BlockHash>>(),
                                            .streams = true},
                                           now_);
    ASSERT_TRUE(started.has_value());
    const std::uint32_t worker = started->decision.worker.value();
    ++given_[worker];
    if (!answered_[worker]) ++given_before_answer_[worker];
    free_[worker] = std::max(free_[worker], now_) + prefill_[worker];
    events_.push({.at = free_[worker],
                  .number = ++numbers_,
                  .request = started->handle,
                  .attempt = started->decision.request,
                  .worker = worker,
                  .ends = false});
  }
  void take_event() {
    Event event = events_.top();
    events_.pop();
    now_ = event.at;
    if (event.ends) return dispatcher_.finish(event.request, Outcome::kCompleted, now_);
    answered_[event.worker] = true;
    dispatcher_.on_first_token(event.attempt, now_);
    event.at += std::chrono::milliseconds(500);
    event.number = ++numbers_;
    event.ends = true;
    events_.push(event);
  }

  TimePoint now_{std::chrono::seconds(1)};
  Fleet fleet_{{"a", "b", "c", "d"}, {}};
  routing::Router router_{{.model = "m",
                           .block_size = 16,
                           .workers = kWorkers,
                           .mode = spec::RoutingMode::kKv,
                           .latency_prior = {.per_prefill_token = std::chrono::microseconds(100)}}};
  Dispatcher dispatcher_;
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0;
  std::array<Duration, kWorkers> prefill_{std::chrono::milliseconds(100), std::chrono::milliseconds(100),
                                          std::chrono::milliseconds(100), std::chrono::milliseconds(100)};
  std::array<TimePoint, kWorkers> free_{};
  std::array<std::uint32_t, kWorkers> given_{};
  std::array<std::uint32_t, kWorkers> given_before_answer_{};
  std::array<bool, kWorkers> answered_{};
};

// 38 requests a second are 95 % of what four workers can do, and more than three can: a queue has grown there.
constexpr Duration kBetween = std::chrono::microseconds(26'300);
constexpr Duration kUsual = std::chrono::milliseconds(100);

TEST(WarmUpInVirtualTime, ASlowNewWorkerIsNotFlooded) {
  for (const bool bounded : {true, false}) {
    Rollout rollout(bounded ? spec::WarmUpSpec{} : spec::WarmUpSpec{.requests = 0});
    rollout.run(std::chrono::seconds(10), kBetween);
    rollout.join(20 * kUsual);
    rollout.run(std::chrono::seconds(2), kBetween);
    rollout.drain();
    if (bounded) {
      EXPECT_GE(rollout.given_before_answer(Rollout::kNew), 1U) << "it is tried";
      EXPECT_LE(rollout.given_before_answer(Rollout::kNew), 2U) << "and not flooded before its first answer";
    } else {
      EXPECT_GE(rollout.given_before_answer(Rollout::kNew), 8U) << "what the bound is for";
    }
  }
}

TEST(WarmUpInVirtualTime, AFastNewWorkerIsSoonAsFullAsTheOthers) {
  Rollout rollout({});
  rollout.run(std::chrono::seconds(10), kBetween);
  rollout.join(kUsual);
  rollout.run(std::chrono::seconds(10), kBetween);
  EXPECT_GE(rollout.given(Rollout::kNew), 75U) << "of 380, its share is 95";
  const std::uint64_t held_back = rollout.held_back();
  EXPECT_GT(held_back, 0U);
  rollout.run(std::chrono::seconds(10), kBetween);
  EXPECT_EQ(rollout.held_back(), held_back) << "it is known by then";
}

TEST(WarmUpInVirtualTime, IfAllAreNewNoneIsHeldBack) {
  Rollout rollout({});
  rollout.join(kUsual);
  rollout.restart_all();
  rollout.run(std::chrono::milliseconds(300), std::chrono::milliseconds(10));
  std::uint32_t all = 0;
  for (std::uint32_t w = 0; w < Rollout::kWorkers; ++w) all += rollout.given(w);
  EXPECT_EQ(all, 30U) << "nobody is refused for it";
}

}  // namespace
}  // namespace kvist::dispatch::warm_up_test
