#include "kvist/gateway/admission_metrics.h"

#include <string>
#include <utility>

namespace kvist::gateway {
namespace {

using telemetry::MetricsPage;

double as_number(std::uint64_t count) {
  return static_cast<double>(count);
}

void write_admission(const dispatch::WaitAdmission& admission, MetricsPage& page) {
  for (const auto& [key_class, counts] : admission.refused()) {
    for (std::size_t i = 0; i < dispatch::kRefusalReasons; ++i) {
      if (counts[i] == 0) continue;
      page.counter("kvist_gateway_admission_refused_total",
                   "Requests rejected before a worker got them, by reason and class of key", as_number(counts[i]),
                   {{"reason", std::string(to_string(static_cast<dispatch::RefusalReason>(i)))}, {"class", key_class}});
    }
  }
  page.gauge("kvist_gateway_admission_wait_seconds", "Wait forecast for the latest request at the worker chosen for it",
             admission.wait_ms() / 1e3);
  page.gauge("kvist_gateway_admission_limit_seconds", "What a request of usual priority and key might have waited then",
             admission.limit_ms() / 1e3);
  page.gauge("kvist_gateway_admission_standing_queues", "Workers whose queue has been long for a while",
             as_number(admission.standing()));
  const dispatch::WaitCorrection& correction = admission.correction();
  for (const auto& [part, ratio] :
       {std::pair("short", correction.of_short()), std::pair("beyond", correction.beyond())})
    page.gauge("kvist_gateway_admission_correction_ratio",
               "Measured waits over forecast ones, by which these are corrected", ratio, {{"part", part}});
}

void write_held(const dispatch::Dispatcher& dispatcher, MetricsPage& page) {
  const dispatch::DispatchCounters& counters = dispatcher.counters();
  page.gauge("kvist_gateway_held", "Requests that wait until a worker's cache has room for them",
             as_number(dispatcher.held()));
  page.counter("kvist_gateway_held_total", "Requests that waited so", as_number(counters.held));
  page.counter("kvist_gateway_held_too_long_total", "Requests for which no worker had room within hold's max_wait",
               as_number(counters.held_too_long));
  page.counter("kvist_gateway_held_seconds_total", "How long those that wait no longer did",
               to_seconds(counters.held_time));
}

void write_demand(const dispatch::FleetDemand& fleet, MetricsPage& page) {
  const dispatch::FleetDemand::Demand demand = fleet.demand();
  for (const auto& [resource, workers] :
       {std::pair("slots", demand.slots), std::pair("memory", demand.memory), std::pair("prefill", demand.prefill)})
    page.gauge("kvist_gateway_demand_workers", "What the load takes of a resource of workers, counted in workers",
               workers, {{"resource", resource}});
  page.gauge("kvist_gateway_demand_pressure", "By how much more comes than is finished in an overload, otherwise 1",
             demand.pressure);
  if (const auto wanted = fleet.wanted())
    page.gauge("kvist_gateway_workers_wanted", "Workers with which the load would use each as far as it should be",
               *wanted);
}

}  // namespace

void write_admission_metrics(const dispatch::Dispatcher& dispatcher, MetricsPage& page) {
  write_held(dispatcher, page);
  write_admission(dispatcher.admission(), page);
  write_demand(dispatcher.demand(), page);
}

}  // namespace kvist::gateway
