// What the router says of a request whose worker was turned down (AdmissionCheck::on_turned_down).
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "kvist/routing/router.h"

namespace kvist::routing::router_turned_down_test {
namespace {

using std::chrono::milliseconds;

/// Turns down everything and keeps what it is told.
class NobodyMayHear final : public AdmissionCheck {
 public:
  bool admits(const Candidate& /*candidate*/) override { return false; }
  void on_turned_down(const TurnedDown& request) override { told = request; }
  std::optional<TurnedDown> told;
};

class RouterTurnedDown : public testing::TestWithParam<spec::RoutingMode> {
 protected:
  RouterTurnedDown() : router_({.model = "m", .block_size = 16, .workers = 3, .mode = GetParam()}) {}

  RouteQuery query() {
    return {.request = RequestId(++last_), .prompt_tokens = 100, .blocks = nullptr, .excluded = {}};
  }
  bool weighed() {
    NobodyMayHear check;
    EXPECT_FALSE(router_.route(query(), fleet_, now_, &check));
    return check.told.value().weighed;
  }
  /// One request whose first token comes after so long.
  DecisionReason serve(milliseconds ttft) {
    RouteQuery asked = query();
    asked.streams = true;
    const Decision decision = router_.route(asked, fleet_, now_).value();
    now_ += ttft;
    router_.on_first_token(decision.request, now_);
    router_.on_progress(decision.request, 1, now_);
    router_.on_finished(decision.request, true, now_);
    return decision.reason;
  }

  std::vector<WorkerView> fleet_{3, WorkerView{.available = true, .limits = {.max_batch_size = 8}}};
  Router router_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t last_ = 0;
};

TEST_P(RouterTurnedDown, WaitsAreWeighedByModeKvAlone) {
  EXPECT_EQ(weighed(), GetParam() == spec::RoutingMode::kKv);
}
INSTANTIATE_TEST_SUITE_P(Modes, RouterTurnedDown,
                         testing::Values(spec::RoutingMode::kKv, spec::RoutingMode::kRoundRobin,
                                         spec::RoutingMode::kDynamo, spec::RoutingMode::kSmetric));

using KvTurnedDown = RouterTurnedDown;
TEST_P(KvTurnedDown, NothingIsWeighedWhileForecastsAreTooWrong) {
  // A minute and a millisecond in turns: whatever is forecast is wrong by far.
  int served = 0;
  while (serve(milliseconds(served % 2 == 0 ? 1 : 60'000)) != DecisionReason::kSafetyNet) ASSERT_LT(++served, 5'000);
  EXPECT_FALSE(weighed());
}
INSTANTIATE_TEST_SUITE_P(Modes, KvTurnedDown, testing::Values(spec::RoutingMode::kKv));

}  // namespace
}  // namespace kvist::routing::router_turned_down_test
