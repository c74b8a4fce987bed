// The number of workers that the gateway asks for, in virtual time: from any size of the fleet about the same, and
// right.
#include "simulation/overload_rig.h"

namespace kvist::simulation::fleet_demand_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Sized {
  dispatch::FleetDemand::Demand demand;
  std::uint32_t wanted = 0;
  double ttft_p95_s = 0;
};

Sized sized(OverloadRig::Options options, std::uint32_t workers, double per_second, Duration length = seconds(120)) {
  options.workers = workers;
  options.check_every = milliseconds(500);
  OverloadRig rig(options, {{.per_second = per_second}});
  rig.run_until(length);
  const dispatch::FleetDemand& demand = rig.dispatcher().demand();
  return {.demand = demand.demand(),
          .wanted = demand.wanted().value_or(0),
          .ttft_p95_s = rig.ttft_s(0.95, length / 3, length)};
}

/// What one worker can finish per second, what of it is scarce, and a load that several workers are needed for.
struct Case {
  const char* scarce;
  OverloadRig::Options options;
  double per_second;
  double dispatch::FleetDemand::Demand::* of;
};

std::vector<Case> cases() {
  return {{"slots", {.prompt_tokens = 640}, 25, &dispatch::FleetDemand::Demand::slots},
          {"memory",
           {.reported_slots = 64, .slots = 64, .prompt_tokens = 640, .max_tokens = 120, .kv_blocks = 300},
           25,
           &dispatch::FleetDemand::Demand::memory},
          {"prefill",
           {.reported_slots = 64, .slots = 64, .prompt_tokens = 6'000, .output_tokens = 10},
           8,
           &dispatch::FleetDemand::Demand::prefill}};
}

TEST(FleetDemand, IsAboutTheSameFromAnySizeThatIsNotSaturated) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.scarce);
    const std::uint32_t wanted = sized(each.options, 10, each.per_second).wanted;
    EXPECT_GE(wanted, 3U);
    EXPECT_LE(wanted, 12U);
    for (const std::uint32_t workers : {wanted, wanted + 3, 2 * wanted}) {
      const Sized here = sized(each.options, workers, each.per_second);
      EXPECT_NEAR(here.wanted, wanted, std::max(1.0, 0.2 * wanted)) << "from " << workers;
      EXPECT_LE(here.demand.pressure, 1.1) << "some requests are refused when many come at once";
      EXPECT_EQ(here.demand.*each.of, std::max({here.demand.slots, here.demand.memory, here.demand.prefill}));
    }
  }
}

// An autoscaler's loop: each time the fleet gets the size that was asked for.
TEST(FleetDemand, LeadsOutOfAnOverloadInAFewStepsToAFleetThatHardlyWaits) {
  for (const bool refuses : {true, false}) {
    for (const Case& each : cases()) {
      SCOPED_TRACE(fmt::format("{}, {}", each.scarce, refuses ? "refuses" : "refuses nothing"));
      OverloadRig::Options options = each.options;
      if (!refuses) options.admission = std::nullopt;
      const double alone_s = sized(options, 3, 0.2).ttft_p95_s;
      std::uint32_t workers = 1;
      int steps = 0;
      for (; steps < 8; ++steps) {
        const std::uint32_t wanted = sized(options, workers, each.per_second, seconds(60)).wanted;
        if (wanted <= workers) break;
        workers = wanted;
      }
      EXPECT_LE(steps, 5);
      const Sized there = sized(options, workers, each.per_second);
      EXPECT_LE(there.ttft_p95_s, 2.5 * alone_s) << "with " << workers << " workers";
      const Sized fewer = sized(options, std::max(1U, workers / 2), each.per_second);
      EXPECT_TRUE(fewer.ttft_p95_s > there.ttft_p95_s || fewer.demand.pressure > 1)
          << "half of the workers would not have done: " << workers;
    }
  }
}

TEST(FleetDemand, OfAnIdleFleetIsOneWorker) {
  EXPECT_EQ(sized({}, 4, 0.02).wanted, 1U);
}

}  // namespace
}  // namespace kvist::simulation::fleet_demand_test
