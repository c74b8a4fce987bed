#include "kvist/simulation/lookahead.h"

#include <gtest/gtest.h>

#include <chrono>

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

TEST(Lookahead, EndsWhereARequestThatComesCanReachAnEngine) {
  Lookahead ahead = lookahead();
  ahead.on_scheduled(at(1'050), event(EventKind::kRequestAtGateway));
  EXPECT_EQ(ahead.until(at(1'000), false), at(1'060));
  EXPECT_EQ(ahead.until(at(1'050), false), at(1'060));  // it may not have been handled yet
  EXPECT_EQ(ahead.until(at(1'051), false), at(1'191));
}

// A request may be refused, and the gateway asks another worker.
TEST(Lookahead, CountsOnARefusal) {
  Lookahead ahead = lookahead();
  ahead.on_scheduled(at(1'050), event(EventKind::kRequestAtWorker, 1));
  EXPECT_EQ(ahead.until(at(1'000), false), at(1'070));
}

TEST(Lookahead, EndsWhereEnginesAreRead) {
  Lookahead ahead = lookahead();
  ahead.on_scheduled(at(1'100), event(EventKind::kTimeline));
  ahead.on_scheduled(at(1'090), event(EventKind::kClientDeadline));  // whose request is aborted at its worker
  EXPECT_EQ(ahead.until(at(1'000), false), at(1'100));
  EXPECT_EQ(ahead.until(at(1'095), false), at(1'100));
  EXPECT_EQ(ahead.until(at(1'101), false), at(1'241));
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
