#include "kvist/simulation/lookahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace kvist::simulation::lookahead_test {
namespace {

using std::chrono::microseconds;

TimePoint at(int us) {
  return TimePoint(microseconds(us));
}

Event event(EventKind kind, std::uint32_t worker = 0) {
  return {.subject = 1, .worker = WorkerId(worker), .kind = kind};
}

Lookahead lookahead() {
  spec::SimulationSpec ways;
  ways.client_hop = microseconds(100);
  ways.gateway_time = microseconds(30);
  ways.worker_hop = microseconds(10);
  return {ways, 2};
}

TEST(Lookahead, IsTheWayFromTheClientIfNothingElseIsUnderWay) {
  Lookahead ahead = lookahead();
  EXPECT_EQ(ahead.until(at(1'000), false), at(1'140));
  ahead.on_scheduled(at(1'000), event(EventKind::kStepAtGateway));
  ahead.on_scheduled(at(1'000), event(EventKind::kLoadWakeup));
  ahead.on_scheduled(at(1'000), event(EventKind::kWorkerTimer));
  EXPECT_EQ(ahead.until(at(1'000), false), at(1'140));
}

TEST(Lookahead, IsTheWayToTheWorkerWhileAnyStepMayReleaseARequest) {
  EXPECT_EQ(lookahead().until(at(1'000), true), at(1'010));
}

// From an event of each kind at 1,050 to the first instant at which any engine may be read or changed.
TEST(Lookahead, KnowsHowSoonEachKindOfEventReachesAnEngine) {
  const std::vector<std::pair<EventKind, int>> reaches = {
      {EventKind::kClientDeadline, 1'160},
      {EventKind::kRequestAtGateway, 1'060},
      {EventKind::kClientGoneAtGateway, 1'060},
      {EventKind::kGatewayDeadline, 1'060},
      {EventKind::kLookAtHeld, 1'060},
      {EventKind::kPeersDue, 1'060},
      {EventKind::kPeerMessage, 1'060},
      {EventKind::kRefusalAtGateway, 1'060},
      {EventKind::kWorkerLostAtGateway, 1'060},
      {EventKind::kWorkerBackAtGateway, 1'060},
      {EventKind::kRequestAtWorker, 1'070},
      {EventKind::kHealthCheck, 1'050},
      {EventKind::kWorkerChange, 1'050},
      {EventKind::kWorkerBack, 1'050},
      {EventKind::kTimeline, 1'050},
      {EventKind::kSnapshot, 1'050},
      {EventKind::kDrainTimeout, 1'050},
  };
  for (const auto& [kind, us] : reaches) {
    SCOPED_TRACE(static_cast<int>(kind));
    Lookahead ahead = lookahead();
    ahead.on_scheduled(at(1'050), event(kind));
    EXPECT_EQ(ahead.until(at(1'045), false), at(us));
    EXPECT_EQ(ahead.until(at(1'050), false), at(us)) << "it may not have been handled yet";
    EXPECT_EQ(ahead.until(at(1'051), false), at(1'191));
  }
}

TEST(Lookahead, KnowsWhatIsAddressedToAnEngine) {
  Lookahead ahead = lookahead();
  for (const EventKind kind : {EventKind::kRequestAtWorker, EventKind::kAbortAtWorker, EventKind::kWorkerWake}) {
    EXPECT_FALSE(ahead.awaits_input(WorkerId(1)));
    ahead.on_scheduled(at(1), event(kind, 1));
    EXPECT_TRUE(ahead.awaits_input(WorkerId(1)));
    EXPECT_FALSE(ahead.awaits_input(WorkerId(0)));
    ahead.on_handled(event(kind, 1));
  }
  EXPECT_FALSE(ahead.awaits_input(WorkerId(1)));
}

}  // namespace
}  // namespace kvist::simulation::lookahead_test
