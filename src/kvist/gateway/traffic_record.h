// What is recorded of one request: nothing that shows what it was about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kvist/base/time.h"
#include "kvist/dispatch/outcome.h"
#include "kvist/routing/prefix_use.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::gateway {

/// A request that the gateway read, from its arrival to its end. Instants stay zero where the thing did not happen. The
/// block hashes are shared with routing and become names under a key on their way into the file.
struct TrafficRecord {
  TimePoint arrived = {};
  TimePoint first_token = {};  ///< of a stream
  TimePoint last_token = {};   ///< the same
  TimePoint ended = {};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;  ///< by usage, of one choice; without usage those that were seen
  std::optional<std::uint32_t> cached_tokens = {};
  routing::BlockKeys blocks = {};
  std::uint64_t session = 0;  ///< 0: the client named none
  bool streams = false;
  std::string worker = {};  ///< the name of the last that was tried; empty: none was
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  dispatch::Outcome outcome = dispatch::Outcome::kNoWorker;
};

}  // namespace kvist::gateway
