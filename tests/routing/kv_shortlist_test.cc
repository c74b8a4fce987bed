#include "kvist/routing/kv_shortlist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <tuple>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/cost_parts.h"
#include "kvist/routing/router.h"

namespace kvist::routing::kv_shortlist_test {
namespace {

constexpr std::uint32_t kBlockSize = 64;

bool is_idle(const Candidate& candidate) {
  return candidate.load.requests == 0;
}

/// What is drawn of a fleet.
struct Drawn {
  std::int64_t least_workers = 33, most_workers = 150;
  std::int64_t least_users = 4, most_users = 48;        ///< for four workers
  std::int64_t least_recorded = 1, most_recorded = 24;  ///< Router::Options::recorded
};

/// Two routers that live through the same: one reads, forecasts and records every worker, the other those that decide.
class TwoRouters {
 public:
  explicit TwoRouters(std::uint64_t seed, const Drawn& drawn = {})
      : random_(seed),
        fleet_(static_cast<std::size_t>(random_.uniform_int(drawn.least_workers, drawn.most_workers))),
        recorded_(static_cast<std::size_t>(random_.uniform_int(drawn.least_recorded, drawn.most_recorded))),
        plain_(make(false, fleet_.size())),
        fast_(make(true, recorded_)) {
    const double other_readers = random_.uniform() < 0.7 ? 0.2 : random_.uniform() < 0.5 ? 1 : 0;
    for (WorkerView& worker : fleet_) {
      worker = {.available = true, .events_exact = random_.uniform() < 0.8, .limits = limits()};
      worker.reading = random_.uniform() < other_readers ? 1 : 0;
    }
    pace_ms_ = random_.uniform() < 0.3 ? 2'000 : random_.uniform() < 0.5 ? 40 : 4;
    users_ = fleet_.size() * static_cast<std::size_t>(random_.uniform_int(drawn.least_users, drawn.most_users)) / 4;
  }

  void live(int events) {
    for (int i = 0; i < events; ++i) {
      now_ += std::chrono::microseconds(random_.uniform_int(0, 1'000 * pace_ms_ / 10));
      if (live_.size() < users_ && random_.uniform() < 0.45) {
        route();
      } else if (!live_.empty()) {
        go_on();
      }
      if (random_.uniform() < 0.02) disturb();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  [[nodiscard]] std::size_t decisions() const { return decisions_; }
  /// Decisions for which the workers differed by who will come back to them, while requests waited.
  [[nodiscard]] std::size_t sought() const { return sought_; }
  /// Decisions on a prefix that should have another copy.
  [[nodiscard]] std::size_t copied() const { return copied_; }
  /// Decisions of whose record nobody is idle but a worker that is in it for that.
  [[nodiscard]] std::size_t passed_over() const { return passed_over_; }
  /// Records of some of the candidates that say what the costs consist of.
  [[nodiscard]] std::size_t accounts() const { return accounts_; }

 private:
  struct Live {
    RequestHandle plain, fast;
    bool begun = false;
    std::uint64_t tokens = 0;
  };

  [[nodiscard]] Router make(bool shortlist, std::size_t recorded) const {
    return Router({.model = "m",
                   .block_size = kBlockSize,
                   .workers = fleet_.size(),
                   .mode = spec::RoutingMode::kKv,
                   .seed = 5,
                   .objective = {.ttft = fleet_.size() % 3 == 0 ? 3.0 : 1.0},
                   .recorded = recorded,
                   .shortlist = shortlist});
  }
  EngineLimits limits() {
    return {.block_size = kBlockSize,
            .kv_blocks = random_.uniform() < 0.3 ? 0U : static_cast<std::uint32_t>(random_.uniform_int(50, 2'000)),
            .max_batch_size = random_.uniform() < 0.3 ? 0U : static_cast<std::uint32_t>(random_.uniform_int(1, 10))};
  }
  // One of a few prefixes, a conversation behind it, and the newest turn.
  RouteQuery query() {
    auto keys = std::make_shared<std::vector<kv::BlockHash>>();
    const auto prefix = static_cast<std::uint64_t>(random_.uniform_int(0, 4));
    const auto conversation = static_cast<std::uint64_t>(random_.uniform_int(0, 60));
    const auto blocks = static_cast<std::uint64_t>(random_.uniform_int(0, 60));
    for (std::uint64_t i = 0; i < blocks; ++i)
      keys->emplace_back(mix_seed({prefix, i < 12 ? 0 : conversation + 1, i < 40 ? 0 : ++unique_, i}));
    RouteQuery query{.request = RequestId(++requests_),
                     .prompt_tokens = static_cast<std::uint32_t>(blocks * kBlockSize + 5),
                     .blocks = keys,
                     .streams = random_.uniform() < 0.7,
                     .reads_cache = random_.uniform() < 0.95,
                     .excluded = {}};
    if (random_.uniform() < 0.05) query.excluded.push_back(any_worker());
    if (random_.uniform() < 0.1) {
      // Read otherwise, a prompt is a little longer or shorter, and there are blocks of it only now and then.
      query.otherwise.push_back(
          {.reading = 1,
           .prompt_tokens = query.prompt_tokens + (random_.uniform() < 0.5 ? 9 : 0) - 4,
           .blocks = random_.uniform() < 0.5 ? keys : std::make_shared<std::vector<kv::BlockHash>>()});
    }
    return query;
  }
  WorkerId any_worker() {
    return WorkerId(static_cast<std::uint32_t>(random_.uniform_int(0, static_cast<std::int64_t>(fleet_.size()) - 1)));
  }

  void route() {
    const RouteQuery query = this->query();
    const auto plain = plain_.route(query, fleet_, now_);
    const auto fast = fast_.route(query, FleetView(fleet_, version_), now_);
    ASSERT_EQ(plain.has_value(), fast.has_value());
    if (!plain) return;
    ASSERT_EQ(plain->worker, fast->worker) << "decision " << decisions_;
    ASSERT_EQ(plain->forecast_ttft_ms, fast->forecast_ttft_ms);
    ASSERT_EQ(plain->predicted_cached_tokens, fast->predicted_cached_tokens);
    ASSERT_EQ(plain->reason, fast->reason);
    expect_best_of(plain_.log().newest(0), fast_.log().newest(0));
    if (testing::Test::HasFatalFailure()) return;
    expect_same_account(plain_.log().newest(0), fast_.log().newest(0));
    if (differ_by_who_returns(plain_.log().newest(0))) ++sought_;
    if (std::ranges::any_of(plain_.log().newest(0).candidates,
                            [](const Candidate& c) { return c.replicate_tokens > 0; }))
      ++copied_;
    live_.push_back({.plain = plain->request, .fast = fast->request});
    ++decisions_;
  }
  static bool differ_by_who_returns(const DecisionRecord& record) {
    const auto held_up_ms = [](const Candidate& candidate) { return candidate.forecast.held_up_ms; };
    const auto waits = [](const Candidate& candidate) { return candidate.load.requests > candidate.load.decoding; };
    const auto [least, most] = std::ranges::minmax(record.candidates | std::views::transform(held_up_ms));
    return most > least + 1 && std::ranges::any_of(record.candidates, waits);
  }
  // Of all candidates, the workers of those that a record of so many keeps without one that is idle.
  static std::vector<WorkerId> best_of(const DecisionRecord& all, std::size_t recorded) {
    std::vector<Candidate> best = all.candidates;
    std::ranges::sort(best, {},
                      [&](const Candidate& one) { return std::tuple(one.worker != all.chosen, one.cost, one.worker); });
    best.resize(std::min(best.size(), recorded));
    std::vector<WorkerId> workers;
    for (const Candidate& one : best) workers.push_back(one.worker);
    std::ranges::sort(workers);
    return workers;
  }
  // `all` has every candidate, `some` those that are to be recorded.
  void expect_best_of(const DecisionRecord& all, const DecisionRecord& some) {
    ASSERT_EQ(all.left_out, 0U);
    ASSERT_EQ(all.policy_state, some.policy_state);
    ASSERT_EQ(some.left_out, all.candidates.size() - some.candidates.size());
    const std::size_t recorded = recorded_ > 0 ? recorded_ : all.candidates.size() > 64 ? 8 : 64;
    const std::vector<WorkerId> best = best_of(all, recorded);
    bool any_idle_best = false;
    std::vector<WorkerId> besides;
    for (const Candidate& one : some.candidates) {
      const bool is_best = std::ranges::binary_search(best, one.worker);
      if (is_best) any_idle_best |= is_idle(one);
      if (!is_best) besides.push_back(one.worker);
      expect_same(all.candidates[position_of(all.candidates, one.worker)], one);
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(some.candidates.size() - besides.size(), best.size());
    const bool wants_idle = recorded > 1 && !any_idle_best && std::ranges::any_of(all.candidates, is_idle);
    ASSERT_EQ(besides.size(), wants_idle ? 1U : 0U);
    if (!wants_idle) return;
    ASSERT_TRUE(is_idle(some.candidates[position_of(some.candidates, besides[0])]));
    ++passed_over_;
  }
  static void expect_same(const Candidate& a, const Candidate& b) {
    ASSERT_EQ(a.worker, b.worker);
    ASSERT_EQ(a.cost, b.cost);
    ASSERT_EQ(a.forecast, b.forecast);
    ASSERT_EQ(a.load, b.load);
    ASSERT_EQ(a.cached_tokens, b.cached_tokens);
    ASSERT_EQ(a.new_blocks, b.new_blocks);
    ASSERT_EQ(a.replicate_tokens, b.replicate_tokens);
    ASSERT_EQ(a.trust, b.trust);
  }
  void expect_same_account(const DecisionRecord& all, const DecisionRecord& some) {
    const auto whole = account_of(all);
    const auto account = account_of(some);
    const bool only_chosen = recorded_ == 1 && some.left_out > 0;
    ASSERT_EQ(account.has_value(), whole.has_value() && !only_chosen);
    if (!account) return;
    ASSERT_EQ(account->waiting, whole->waiting);
    ASSERT_EQ(account->most_in_tie, whole->most_in_tie);
    ASSERT_EQ(account->parts.size(), some.candidates.size());
    for (std::size_t i = 0; i < some.candidates.size(); ++i) {
      const Candidate& one = some.candidates[i];
      ASSERT_EQ(account->parts[i], whole->parts[position_of(all.candidates, one.worker)]);
      ASSERT_NEAR(account->parts[i].sum(), one.cost, 1e-9 * one.cost);
    }
    if (some.left_out > 0) ++accounts_;
  }

  // One of the requests in flight gets its first token, more tokens, a whole answer, or ends.
  void go_on() {
    const auto at = static_cast<std::ptrdiff_t>(random_.uniform_int(0, static_cast<std::int64_t>(live_.size()) - 1));
    Live& request = live_[static_cast<std::size_t>(at)];
    const double what = random_.uniform();
    if (!request.begun) {
      request.begun = true;
      if (what < 0.05)
        return both(
            [&](Router& router, RequestHandle handle) {
              router.on_whole_answer(handle, {.tokens = 30, .prompt_tokens = 200}, now_);
            },
            request);
      return both([&](Router& router, RequestHandle handle) { router.on_first_token(handle, now_); }, request);
    }
    if (what < 0.85) {
      const auto tokens = static_cast<std::uint64_t>(random_.uniform_int(1, 40));
      return both([&](Router& router, RequestHandle handle) { (void)router.on_progress(handle, tokens, now_); },
                  request);
    }
    const auto cached = static_cast<std::uint64_t>(random_.uniform_int(0, 400));
    both(
        [&](Router& router, RequestHandle handle) {
          router.on_usage(handle, 500, cached);
          router.on_finished(handle, cached % 7 != 0, now_);
        },
        request);
    live_.erase(live_.begin() + at);
  }
  template <class Call>
  void both(Call call, const Live& request) {
    call(plain_, request.plain);
    call(fast_, request.fast);
  }
  void disturb() {
    WorkerView& worker = fleet_[any_worker().value()];
    ++version_;
    const double what = random_.uniform();
    if (what < 0.4)
      worker.available = !worker.available;
    else if (what < 0.6)
      worker.limits = limits();
    else if (what < 0.65)
      worker.events_exact = !worker.events_exact;
    else if (what < 0.7)
      worker.max_model_len = static_cast<std::uint32_t>(random_.uniform_int(0, 1) * 2'000);
    else if (what < 0.75)
      worker.most_waiting = static_cast<std::uint32_t>(random_.uniform_int(0, 2));
    else
      now_ += std::chrono::milliseconds(random_.uniform_int(0, 20'000));
  }

  RandomStream random_;
  std::vector<WorkerView> fleet_;
  std::uint64_t version_ = 1;  // of fleet_, which only the fast router is told
  std::size_t recorded_;
  Router plain_, fast_;
  std::deque<Live> live_;
  std::size_t users_ = 0;
  std::int64_t pace_ms_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t unique_ = 0;
  std::size_t decisions_ = 0;
  std::size_t sought_ = 0;
  std::size_t copied_ = 0;
  std::size_t passed_over_ = 0;
  std::size_t accounts_ = 0;
  TimePoint now_{};
};

// The record has every input, cost and forecast, so this compares the choices and all that can be seen of them.
TEST(KvShortlist, ChoosesAsIfEveryWorkerWereForecast) {
  const std::uint64_t first = std::random_device()();
  std::size_t decisions = 0;
  std::size_t sought = 0;
  std::size_t copied = 0;
  for (std::uint64_t seed = first; seed < first + 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoRouters routers(seed);
    routers.live(3'000);
    decisions += routers.decisions();
    sought += routers.sought();
    copied += routers.copied();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(decisions, 20'000U);
  EXPECT_GT(sought, decisions / 10);
  EXPECT_GT(copied, decisions / 100);
}

// As a gateway records a fleet in which some have no requests.
TEST(KvShortlist, TheRecordSaysWhyAnIdleWorkerWasPassedOver) {
  const std::uint64_t first = std::random_device()();
  std::size_t passed_over = 0;
  std::size_t accounts = 0;
  for (std::uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoRouters routers(seed, {.least_workers = 65,
                              .most_workers = 300,
                              .least_users = 1,
                              .most_users = 8,
                              .least_recorded = 0,
                              .most_recorded = 0});
    routers.live(3'000);
    passed_over += routers.passed_over();
    accounts += routers.accounts();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(passed_over, 1'000U);
  EXPECT_GT(accounts, 5'000U);
}

/// Turns down all but one.
class AdmitsOne final : public AdmissionCheck {
 public:
  explicit AdmitsOne(WorkerId worker) : worker_(worker) {}
  bool admits(const Candidate& candidate) override { return candidate.worker == worker_; }

 private:
  WorkerId worker_;
};

TEST(KvShortlist, WhoIsLeftOutOfTheListMayStillTakeWhatTheOthersTurnDown) {
  const std::vector<WorkerView> fleet(100, {.available = true, .limits = {.max_batch_size = 8}});
  Router router(
      {.model = "m", .block_size = kBlockSize, .workers = 100, .mode = spec::RoutingMode::kKv, .recorded = 4});
  const WorkerId last(99);
  RouteQuery busy{.request = RequestId(1), .prompt_tokens = 20'000, .blocks = nullptr, .excluded = {}};
  for (std::uint32_t i = 0; i < 99; ++i) busy.excluded.emplace_back(i);
  ASSERT_EQ(router.route(busy, fleet, TimePoint{}).value().worker, last);
  AdmitsOne check(last);
  const auto decision = router.route({.request = RequestId(2), .prompt_tokens = 100, .blocks = nullptr, .excluded = {}},
                                     fleet, TimePoint{}, &check);
  ASSERT_TRUE(decision) << decision.error().message;
  EXPECT_EQ(decision->worker, last);
}

}  // namespace
}  // namespace kvist::routing::kv_shortlist_test
