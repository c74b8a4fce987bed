// The answer of GET /status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/loadgen/load.h"
#include "kvist/loadgen/load_measures.h"

namespace kvist::loadgen {

struct Status {
  std::string_view state;  ///< "idle", "running", "draining"
  std::string target;
  std::string model;
  std::uint32_t concurrency = 0;  ///< the level: of open arrivals starts per minute; 0 when idle, like the seed
  std::uint64_t seed = 0;
  double target_rps = 0;  ///< most starts per second; of an open loop their rate; 0: no limit, or a trace
  Duration window{};
  LoadMeasures measures;
  ClientLoad load;
};

[[nodiscard]] std::string status_json(const Status& status);

}  // namespace kvist::loadgen
