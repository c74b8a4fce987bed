// Answers that are not streamed: nobody sees their first tokens.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/routing/load_observer.h"
#include "kvist/routing/router.h"

namespace kvist::routing::router_unseen_test {
namespace {

using std::chrono::milliseconds;

constexpr WorkerId kWorker{0};

/// Counts what it is told.
class Counting final : public LoadObserver {
 public:
  std::uint64_t on_routed(RequestHandle, const RoutedRequest&, std::uint32_t, std::uint64_t, TimePoint) override {
    return 1;
  }
  void on_first_token(const RoutedRequest&) override { ++first_tokens; }
  void on_finished(const RoutedRequest&, bool) override {}

  std::size_t first_tokens = 0;
};

class RouterUnseenTest : public ::testing::Test {
 protected:
  Decision route(std::uint32_t tokens, bool streams = false) {
    const Decision decision = router_
                                  .route({.request = RequestId(++requests_),
                                          .prompt_tokens = tokens,
                                          .blocks = nullptr,
                                          .streams = streams,
                                          .excluded = {}},
                                         fleet_, now_)
                                  .value();
    return decision;
  }
  /// A decision that books nothing: what is assumed is assumed when somebody asks.
  void look() {
    const Decision decision = route(1, true);
    router_.on_finished(decision.request, false, now_);
  }
  [[nodiscard]] const WorkerLoad& load() const { return router_.loads().load(kWorker); }

  std::vector<WorkerView> fleet_{{.available = true, .limits = {.max_batch_size = 64}}};
  Router router_{{.model = "m", .block_size = 32, .workers = 1, .mode = spec::RoutingMode::kKv}};
  TimePoint now_{std::chrono::seconds(100)};
  std::uint64_t requests_ = 0;
};

TEST_F(RouterUnseenTest, ARequestWaitsForItsFirstTokenNoLongerThanForecast) {
  const Decision decision = route(4'000);
  now_ += from_milliseconds(decision.forecast_ttft_ms - 1);
  look();
  EXPECT_EQ(load().decoding, 0U);
  EXPECT_EQ(load().prefill_tokens, 4'000U);
  now_ += milliseconds(2);
  look();
  EXPECT_EQ(load().decoding, 1U);
  EXPECT_EQ(load().prefill_tokens, 0U);
  EXPECT_DOUBLE_EQ(router_.forecaster().prefill_under_way_ms(kWorker), 0);
  router_.on_whole_answer(decision.request, {.tokens = 20, .prompt_tokens = 4'000}, now_ + milliseconds(500));
  router_.on_finished(decision.request, true, now_ + milliseconds(500));
  EXPECT_EQ(load(), WorkerLoad{});
}

TEST_F(RouterUnseenTest, ANewWorkerIsHeldBackUntilAnAnswerIsSeen) {
  fleet_.push_back(fleet_[0]);
  fleet_[1].most_waiting = 1;
  Router router({.model = "m", .block_size = 32, .workers = 2, .mode = spec::RoutingMode::kKv});
  const auto route = [&] {
    now_ += std::chrono::seconds(60);
    return router
        .route({.request = RequestId(++requests_), .prompt_tokens = 4'000, .blocks = nullptr, .excluded = {}}, fleet_,
               now_)
        .value();
  };
  std::vector<Decision> at_new;
  for (int i = 0; i < 8; ++i) {
    const Decision decision = route();
    if (decision.worker == WorkerId(1)) at_new.push_back(decision);
  }
  ASSERT_EQ(at_new.size(), 1U);
  EXPECT_EQ(router.loads().load(WorkerId(1)).decoding, 1U);
  EXPECT_EQ(router.loads().assumed(WorkerId(1)), 1U);
  EXPECT_EQ(router.log().newest(0).held_back, std::vector{WorkerId(1)});
  router.on_whole_answer(at_new[0].request, {.tokens = 20, .prompt_tokens = 4'000}, now_);
  EXPECT_EQ(router.loads().assumed(WorkerId(1)), 0U);
  EXPECT_EQ(route().worker, WorkerId(1)) << "the one with less to do";
}

TEST_F(RouterUnseenTest, AStreamWaitsUntilItsFirstTokenIsThere) {
  const Decision decision = route(4'000, true);
  now_ += std::chrono::seconds(60);
  look();
  EXPECT_EQ(load().decoding, 0U);
  router_.on_first_token(decision.request, now_);
  EXPECT_EQ(load().decoding, 1U);
}

// The prompt behind a stream that is late cannot be computed yet.
TEST_F(RouterUnseenTest, WhoComesBehindAStreamThatIsLateWaitsOn) {
  const Decision stream = route(8'000, true);
  (void)route(4'000);
  now_ += std::chrono::seconds(20);
  look();
  EXPECT_EQ(load().decoding, 0U);
  router_.on_first_token(stream.request, now_);
  now_ += std::chrono::seconds(5);
  look();
  EXPECT_EQ(load().decoding, 2U);
}

TEST_F(RouterUnseenTest, AFirstTokenShowsThatThePromptsBeforeItAreComputed) {
  (void)route(60'000);
  (void)route(30'000);
  const Decision stream = route(100, true);
  (void)route(10'000);
  now_ += milliseconds(500);  // far less than the forecast
  router_.on_first_token(stream.request, now_);
  EXPECT_EQ(load().decoding, 3U);
  EXPECT_EQ(load().prefill_tokens, 10'000U);
}

TEST_F(RouterUnseenTest, TheEndOfAnAnswerShowsTheSame) {
  (void)route(60'000);
  const Decision answer = route(100);
  (void)route(10'000);
  now_ += milliseconds(500);
  router_.on_whole_answer(answer.request, {.tokens = 3, .prompt_tokens = 100}, now_);
  EXPECT_EQ(load().decoding, 2U);
  EXPECT_EQ(load().prefill_tokens, 10'000U);
}

TEST_F(RouterUnseenTest, OtherGatewaysAreToldOnce) {
  Counting observer;
  router_.tell(&observer);
  const Decision decision = route(4'000);
  now_ += std::chrono::seconds(10);
  look();
  EXPECT_EQ(observer.first_tokens, 1U);
  router_.on_whole_answer(decision.request, {.tokens = 20, .prompt_tokens = 4'000}, now_);
  EXPECT_EQ(observer.first_tokens, 1U);
  router_.tell(nullptr);
}

TEST_F(RouterUnseenTest, AnAttemptThatFailsIsForgotten) {
  const Decision decision = route(4'000);
  router_.on_finished(decision.request, false, now_);
  now_ += std::chrono::seconds(60);
  look();
  EXPECT_EQ(load(), WorkerLoad{});
}

// F of an idle fleet is 0, although answers are under way: so prefill costs the request itself and nobody else.
TEST_F(RouterUnseenTest, AnswersUnderWayDoNotCountAsAQueue) {
  for (int i = 0; i < 40; ++i) {
    (void)route(500);
    now_ += milliseconds(300);
  }
  (void)route(500);
  const DecisionRecord& record = router_.log().newest(0);
  EXPECT_EQ(record.candidates.front().load.requests, 40U);
  EXPECT_GE(record.candidates.front().load.decoding, 39U);
  EXPECT_EQ(KvPolicy::fleet_of_all(record.query(), record.candidates).prices.waiting, 0);
}

}  // namespace
}  // namespace kvist::routing::router_unseen_test
