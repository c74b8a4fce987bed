// What a load is set to, from its workload and the changes since its start.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/spec/workload.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

[[nodiscard]] bool replays(const spec::WorkloadSpec& workload);
/// Whether conversations are drawn, and start whatever is in flight.
[[nodiscard]] bool is_open_loop(const spec::WorkloadSpec& workload);
/// The settings with which a load that is started with this number begins.
[[nodiscard]] workload::LoadChange settings_at(const spec::WorkloadSpec& workload, std::uint32_t concurrency);
/// The number with which these settings would have been started: of an open loop the starts per minute.
[[nodiscard]] std::uint32_t level_of(const workload::LoadChange& settings);
/// Starts of drawn conversations per second: those of an open loop, or the most of a closed one; 0: no limit, or a
/// trace, which has its own instants.
[[nodiscard]] double start_rate(const spec::WorkloadSpec& workload, const workload::LoadChange& settings);
/// "32 conversations at once, at most 4 starts/s".
[[nodiscard]] std::string describe_load(const spec::WorkloadSpec& workload, const workload::LoadChange& settings,
                                        std::uint32_t concurrency);

}  // namespace kvist::loadgen
