#include "kvist/loadgen/load_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/loadgen/controlled_load.h"

namespace kvist::loadgen {

bool replays(const spec::WorkloadSpec& workload) {
  return !workload.trace.file.empty();
}

bool is_open_loop(const spec::WorkloadSpec& workload) {
  return !replays(workload) && workload.arrivals.is_open();
}

namespace {

workload::LoadChange ordered_at(const spec::WorkloadSpec& workload, std::uint32_t concurrency) {
  if (!is_open_loop(workload) || workload.arrivals.rate_per_s <= 0) return {};
  return {.rate = concurrency / 60.0};
}

}  // namespace

workload::LoadChange settings_at(const spec::WorkloadSpec& workload, std::uint32_t concurrency) {
  const spec::ArrivalSpec& arrivals = workload.arrivals;
  if (!is_open_loop(workload)) return {.concurrency = concurrency, .max_start_rate = workload.target_rps};
  return {.rate = arrivals.starts_per_second(concurrency), .max_in_flight = arrivals.max_conversations};
}

Result<void> start_as(const StartCommand& command, const spec::WorkloadSpec& workload, ControlledLoad& load) {
  const std::uint64_t seed = command.seed.value_or(workload.seed);
  return load.start_with(command.concurrency, seed, ordered_at(workload, command.concurrency));
}

std::uint32_t level_of(const workload::LoadChange& settings) {
  return settings.concurrency.value_or(
      static_cast<std::uint32_t>(std::lround(std::max(1.0, 60 * settings.rate.value_or(0)))));
}

double start_rate(const spec::WorkloadSpec& workload, const workload::LoadChange& settings) {
  if (replays(workload)) return 0;
  return (is_open_loop(workload) ? settings.rate : settings.max_start_rate).value_or(0);
}

std::string describe_load(const spec::WorkloadSpec& workload, const workload::LoadChange& settings,
                          std::uint32_t concurrency) {
  const double rate = start_rate(workload, settings);
  if (is_open_loop(workload)) {
    return fmt::format("open arrivals, {:g} starts/min, at most {} conversations", 60 * rate,
                       settings.max_in_flight.value_or(0));
  }
  if (!replays(workload)) {
    if (rate == 0) return fmt::format("{} conversations at once", concurrency);
    return fmt::format("{} conversations at once, at most {:g} starts/s", concurrency, rate);
  }
  const spec::TraceSpec& trace = workload.trace;
  if (trace.loop == spec::TraceLoop::kClosed) return fmt::format("{}, {} at once", trace.file, concurrency);
  return fmt::format("{} at {:g} times its speed", trace.file, trace.speed);
}

}  // namespace kvist::loadgen
