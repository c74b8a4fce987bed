// The lines of a record of traffic (docs/formats/record.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/keyed_hash.h"
#include "kvist/base/time.h"
#include "kvist/gateway/traffic_record.h"

namespace kvist::gateway {

/// What all lines of a recording have in common.
struct Recording {
  std::uint64_t id = 0;  ///< drawn anew by each process, below 2^53: the files of one recording have the same
  KeyedHash key{0, 0};   ///< names of blocks and sessions; never written
  TimePoint clock_start = {};
  std::int64_t started_unix_ms = 0;  ///< the same instant by the calendar
  std::string model = {};
  std::uint32_t block_size = 0;
  std::vector<std::string> workers = {};  ///< names by WorkerId
};

/// The first line of a file; `part` counts the files of the recording.
[[nodiscard]] std::string head_line(const Recording& recording, std::uint64_t part);
/// The line of one request, with its end.
[[nodiscard]] std::string record_line(const Recording& recording, const TrafficRecord& record);

}  // namespace kvist::gateway
