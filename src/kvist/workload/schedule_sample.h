// The beginning of a load as a text, by which two machines can tell whether they would drive the same.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/spec/workload.h"
#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"

namespace kvist::workload {

/// The workload, the first messages and numbers of some conversations, and of an open loop the instants of some
/// thousand arrivals, to the nanosecond: another version, another file, or another machine's arithmetic shows.
/// Requires: a load of drawn conversations that check_load() accepts, with its texts of this seed.
[[nodiscard]] std::string schedule_sample(const spec::WorkloadSpec& spec, const LoadInput& input,
                                          const LoadTexts& texts, std::uint32_t level, std::uint64_t seed);

}  // namespace kvist::workload
