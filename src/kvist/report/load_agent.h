// An agent of a load that several machines drove.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kvist/base/time.h"
#include "kvist/results/records.h"

namespace kvist::report {

struct LoadAgent {
  std::string name;  ///< host:port
  std::uint32_t threads = 1;
  std::uint64_t turns = 0;                   ///< whose samples have come
  std::optional<Duration> clock_ahead = {};  ///< of the coordinator's, before the load
  Duration clock_bound{};                    ///< by how much that may be wrong, at most
  std::optional<Duration> clock_drift = {};  ///< gained during the load; nothing: not compared afterwards
  std::optional<std::string> lost = {};      ///< why it was
  results::ClientHealth client = {};         ///< of its own turns
};

}  // namespace kvist::report
