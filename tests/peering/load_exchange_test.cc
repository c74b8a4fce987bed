#include "kvist/peering/load_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "gateways.h"
#include "kvist/base/random.h"
#include "kvist/peering/message_codec.h"

namespace kvist::peering::load_exchange_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kBatch = TellingTimes().batch;

TimePoint at(Duration since) {
  return TimePoint{} + seconds(10) + since;
}

/// A fleet of four equal workers behind one gateway of several.
struct Gateway {
  Gateway(const std::string& name, std::uint64_t run, const spec::StepTimeSpec& prior = {})
      : fleet({"a", "b", "c", "d"}, {}, 4),
        router({.model = "m",
                .block_size = 16,
                .workers = 4,
                .mode = spec::RoutingMode::kLeastLoaded,
                .latency_prior = prior}),
        load({.gateway = name, .run = run, .patience = seconds(3)}, router, fleet) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      fleet.set_limits(WorkerId(i), {.block_size = 16, .kv_blocks = 40'000, .max_batch_size = 256});
      fleet.on_success(WorkerId(i), TimePoint{});
    }
  }
  routing::RequestHandle route(std::uint64_t id, TimePoint now, bool streams = false) {
    return router
        .route({.request = RequestId(id),
                .prompt_tokens = 320,
                .blocks = prompt_of(id, 20, 0, id),
                .streams = streams,
                .excluded = {}},
               fleet.views(), now)
        ->request;
  }

  dispatch::Fleet fleet;
  routing::Router router;
  LoadExchange load;
};

/// Gateways and a network that takes `way` from each to each. Their clocks differ by hours, as those of machines do.
class Group {
 public:
  Group(std::size_t count, Duration way, const spec::StepTimeSpec& prior = {}) : way_(way) {
    for (std::size_t i = 0; i < count; ++i)
      gateways_.push_back(std::make_unique<Gateway>("g" + std::to_string(i), 1, prior));
  }
  [[nodiscard]] Gateway& operator[](std::size_t i) { return *gateways_[i]; }
  [[nodiscard]] static TimePoint clock(std::size_t gateway, Duration since) {
    return at(since) + std::chrono::hours(gateway);
  }
  /// Everything up to then, in steps of a millisecond.
  void run_until(Duration until) {
    for (; now_ < until; now_ += milliseconds(1)) {
      for (; !under_way_.empty() && under_way_.front().first <= now_; under_way_.pop()) {
        const auto& [from, message] = under_way_.front().second;
        for (std::size_t to = 0; to < gateways_.size(); ++to)
          if (to != from) gateways_[to]->load.on_message(bytes_of(message), clock(to, now_));
      }
      for (std::size_t from = 0; from < gateways_.size(); ++from) {
        if (gateways_[from]->load.due(clock(from, now_)) > clock(from, now_)) continue;
        for (std::string& message : gateways_[from]->load.take(clock(from, now_)))
          under_way_.push({now_ + way_, {from, std::move(message)}});
      }
    }
  }

 private:
  Duration way_;
  Duration now_{};
  std::vector<std::unique_ptr<Gateway>> gateways_;
  std::queue<std::pair<Duration, std::pair<std::size_t, std::string>>> under_way_;
};

TEST(LoadExchange, MeasuresHowLongMessagesTakeWithoutComparingClocks) {
  for (const Duration way : {Duration(milliseconds(2)), Duration(milliseconds(40)), Duration(milliseconds(150))}) {
    Group group(3, way);
    group.run_until(seconds(3));
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(group[i].load.way());
      EXPECT_LE(std::abs(to_milliseconds(*group[i].load.way() - way)), 1.0);
    }
  }
}

TEST(LoadExchange, BelievesNoWayThatCannotBe) {
  Gateway gateway("a", 7);
  const auto hear = [&](Heard heard, Duration now) {
    static std::uint64_t sequence = 0;
    const Message message{.gateway = "b", .run = 1, .sequence = ++sequence, .events = {heard}};
    gateway.load.on_message(bytes_of(encode(message)), at(now));
  };
  ASSERT_FALSE(gateway.load.take(at(seconds(0))).empty());
  const Heard heard{.gateway = gateway_key("a"), .run = 7, .sequence = 1};
  Heard wrong = heard;
  wrong.sequence = 2;  // was never sent
  hear(wrong, milliseconds(10));
  wrong = heard;
  wrong.run = 6;
  hear(wrong, milliseconds(10));
  wrong = heard;
  wrong.gateway = gateway_key("c");
  hear(wrong, milliseconds(10));
  wrong = heard;
  wrong.held = milliseconds(11);  // came before it was sent
  hear(wrong, milliseconds(10));
  hear(heard, seconds(30));  // too long
  EXPECT_FALSE(gateway.load.way());
  wrong = heard;
  wrong.held = milliseconds(4);
  hear(wrong, milliseconds(10));
  ASSERT_TRUE(gateway.load.way());
  EXPECT_EQ(*gateway.load.way(), milliseconds(3));
}

TEST(LoadExchange, ARequestStandsForThoseOfTheOthersUntilWordOfThemComes) {
  constexpr auto kWay = milliseconds(100);
  Group group(2, kWay);
  // The other one routes 100 requests a second, each for 40 ms; this one none.
  Duration now{};
  std::uint64_t id = 0;
  for (; now < seconds(4); now += milliseconds(10)) {
    group.run_until(now);
    const routing::RequestHandle handle = group[1].route(++id, Group::clock(1, now));
    group.run_until(now + milliseconds(5));
    group[1].router.on_finished(handle, true, Group::clock(1, now + milliseconds(5)));
  }
  group.run_until(now);
  EXPECT_EQ(group[0].load.unheard(), 0U);
  const routing::RequestHandle own = group[0].route(++id, Group::clock(0, now));
  // In the 102.5 ms that its news is old the other one has routed some ten, and this one's one request, which is all
  // that it routed within a second, says where half to nine tenths of them went.
  const std::size_t unheard = group[0].load.unheard();
  EXPECT_GE(unheard, 8U);
  EXPECT_LE(unheard, 10U);
  const WorkerId worker = group[0].router.find(own)->worker;
  EXPECT_GE(group[0].router.loads().load(worker).requests, unheard + 1);
  group[0].router.on_finished(own, true, Group::clock(0, now));
  const Duration gone = kWay + kBatch;
  group.run_until(now + gone);
  EXPECT_EQ(group[0].load.unheard(), 0U);
  group.run_until(now + gone + kWay);
  EXPECT_EQ(group[0].router.loads().requests(), 0U);
}

TEST(LoadExchange, AGatewayWithoutOthersExpectsNothing) {
  Group group(1, milliseconds(100));
  for (std::uint64_t id = 1; id <= 100; ++id) static_cast<void>(group[0].route(id, Group::clock(0, milliseconds(id))));
  group.run_until(milliseconds(200));
  EXPECT_EQ(group[0].load.unheard(), 0U);
  EXPECT_EQ(group[0].router.loads().requests(), 100U);
}

/// The most requests that any worker has at once, of 400 a second that stay for 100 ms: 40 at once, 10 at each worker.
std::uint32_t most_at_once(Duration way) {
  constexpr std::size_t kGateways = 8;
  Group group(kGateways, way);
  RandomStream random(11);
  struct Running {
    Duration until;
    std::size_t gateway;
    routing::RequestHandle handle;
  };
  std::deque<Running> running;
  std::map<std::uint32_t, std::uint32_t> at_worker;
  std::uint32_t most = 0;
  std::uint64_t id = 0;
  for (Duration now{}; now < seconds(6); now += microseconds(2'500)) {
    group.run_until(now);
    for (; !running.empty() && running.front().until <= now; running.pop_front()) {
      Gateway& gateway = group[running.front().gateway];
      --at_worker[gateway.router.find(running.front().handle)->worker.value()];
      gateway.router.on_finished(running.front().handle, true, Group::clock(running.front().gateway, now));
    }
    const std::size_t to = static_cast<std::size_t>(random.uniform_int(0, kGateways - 1));
    const routing::RequestHandle handle = group[to].route(++id, Group::clock(to, now));
    running.push_back({.until = now + milliseconds(100), .gateway = to, .handle = handle});
    const std::uint32_t there = ++at_worker[group[to].router.find(handle)->worker.value()];
    if (now > seconds(3)) most = std::max(most, there);
  }
  return most;
}

TEST(LoadExchange, GatewaysFarApartDoNotFillTheSameWorker) {
  EXPECT_LE(most_at_once(milliseconds(1)), 14U);
  // Without the unheard ones 32 were at one worker.
  EXPECT_LE(most_at_once(milliseconds(100)), 18U);
}

// The bound of a wait is shorter where many are refused. If each gateway counted its own refusals alone, one that
// refuses few would fill the queues up to its longer bound, and leave it to the others to refuse.
TEST(LoadExchange, WhatOneGatewayRefusesShortensTheBoundOfAll) {
  Group group(3, milliseconds(1));
  std::vector<std::unique_ptr<dispatch::WaitAdmission>> admissions;
  for (std::size_t i = 0; i < 3; ++i) {
    admissions.push_back(
        std::make_unique<dispatch::WaitAdmission>(spec::AdmissionSpec{}, group[i].router.forecaster(), 4));
    group[i].load.share_refusals(*admissions[i]);
  }
  group.run_until(seconds(2));
  const double few_refused_ms = admissions[0]->standing_wait_ms();
  const dispatch::AdmissionProfile profile;
  for (int i = 0; i < 100; ++i) {
    const auto check = admissions[1]->check(profile, Group::clock(1, seconds(2)));
    (void)admissions[1]->refuse(check);
  }
  const double many_refused_ms = admissions[1]->standing_wait_ms();
  EXPECT_LT(many_refused_ms, few_refused_ms);
  group.run_until(seconds(4));
  EXPECT_EQ(group[0].load.peers().counters().refused, 100U);
  EXPECT_EQ(admissions[0]->standing_wait_ms(), many_refused_ms);
  EXPECT_EQ(admissions[2]->standing_wait_ms(), many_refused_ms);
}

// 200 requests a second at each of two gateways, 10 ms apart.
TEST(LoadExchange, WhatStandsForOthersIsInNoSumOverRequests) {
  Group group(2, milliseconds(10));
  struct Running {
    Duration until;
    std::size_t gateway;
    routing::RequestHandle handle;
  };
  std::deque<Running> running;
  std::uint64_t id = 0;
  std::size_t unheard = 0;
  for (Duration now{}; now < seconds(10); now += microseconds(2'500)) {
    group.run_until(now);
    for (; !running.empty() && running.front().until <= now; running.pop_front())
      group[running.front().gateway].router.on_finished(running.front().handle, true,
                                                        Group::clock(running.front().gateway, now));
    const std::size_t to = id % 2;
    running.push_back(
        {.until = now + milliseconds(40), .gateway = to, .handle = group[to].route(++id, Group::clock(to, now))});
    unheard = std::max(unheard, group[0].load.unheard());
  }
  EXPECT_GT(unheard, 0U);
  const routing::Forecaster& forecaster = group[0].router.forecaster();
  const double one_ms = forecaster.latency().fleet().prefill_ms({.uncached = 320});
  EXPECT_NEAR(forecaster.routed_prefill_ms() / (static_cast<double>(id) * one_ms), 1.0, 0.01);
}

/// Workers take `prompt_ms` for each prompt, one after the other, at four fifths of what they can do; a step takes a
/// quarter of that. What the first of the gateways learns of a prompt.
double learned_prefill_ms(std::size_t gateways, Duration way, double prompt_ms) {
  constexpr double kWorkers = 4;
  constexpr double kLoad = 0.8;
  constexpr auto kWayOut = milliseconds(20);
  Group group(gateways, way, {.fixed = from_milliseconds(prompt_ms / 4), .per_sequence = {}, .per_kv_token_ns = 0});
  RandomStream random(5);
  struct Running {
    Duration at;
    std::size_t gateway;
    routing::RequestHandle handle;
    bool operator<(const Running& other) const { return at > other.at; }
  };
  std::priority_queue<Running> first_tokens;
  std::map<std::uint32_t, Duration> free;
  Duration next{};
  std::uint64_t id = 0;
  for (Duration now{}; now < seconds(60); now += milliseconds(1)) {
    group.run_until(now);
    for (; !first_tokens.empty() && first_tokens.top().at <= now; first_tokens.pop()) {
      const Running& one = first_tokens.top();
      routing::Router& router = group[one.gateway].router;
      router.on_first_token(one.handle, Group::clock(one.gateway, now));
      router.on_finished(one.handle, true, Group::clock(one.gateway, now));
    }
    for (; next <= now; next += from_milliseconds(random.uniform() * 2 * prompt_ms / (kWorkers * kLoad))) {
      const std::size_t to = static_cast<std::size_t>(random.uniform_int(0, gateways - 1));
      const routing::RequestHandle handle = group[to].route(++id, Group::clock(to, now), true);
      Duration& worker = free[group[to].router.find(handle)->worker.value()];
      worker = std::max(worker, now) + from_milliseconds(prompt_ms);
      first_tokens.push({.at = worker + kWayOut, .gateway = to, .handle = handle});
    }
  }
  return group[0].router.forecaster().latency().fleet().prefill_ms({.uncached = 320});
}

TEST(LoadExchange, TheSpeedOfPrefillIsLearnedBesideOtherGateways) {
  struct Case {
    std::size_t gateways;
    Duration way;
    double prompt_ms;
  };
  for (const Case& c : {Case{2, milliseconds(1), 80}, Case{2, milliseconds(100), 80}, Case{4, milliseconds(100), 80},
                        Case{4, milliseconds(20), 40}, Case{8, milliseconds(1), 16}}) {
    const double alone_ms = learned_prefill_ms(1, milliseconds(1), c.prompt_ms);
    const double ms = learned_prefill_ms(c.gateways, c.way, c.prompt_ms);
    GTEST_LOG_(INFO) << c.gateways << " gateways " << to_milliseconds(c.way) << " ms apart: " << ms << " ms of "
                     << c.prompt_ms << " ms; one gateway " << alone_ms << " ms";
    EXPECT_GE(ms / alone_ms, 0.9);
    EXPECT_LE(ms / alone_ms, 1.1);
  }
}

}  // namespace
}  // namespace kvist::peering::load_exchange_test
