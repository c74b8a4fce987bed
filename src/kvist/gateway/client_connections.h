// How many connections of clients the gateway takes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/net/zmq_receiver.h"

namespace kvist::gateway {

/// What the process may open, and what it needs for other things than clients.
struct DescriptorNeeds {
  std::uint64_t descriptors = 0;
  std::uint64_t event_streams = 0;  ///< subscriptions to workers' KV events
};

/// The most connections of clients of all loops, as far as descriptors go. Together clients get at most half of them,
/// so that some are always left for the workers. Without that bound, idle clients would make every worker look dead.
[[nodiscard]] constexpr std::uint64_t most_clients(const DescriptorNeeds& needs) {
  constexpr std::uint64_t kOthers = 256;  // files, health checks
  const std::uint64_t others = kOthers + net::ZmqReceiver::kDescriptors * needs.event_streams;
  return (needs.descriptors - std::min(needs.descriptors, others)) / 2;
}

/// The most connections of each loop: an equal share of most_clients() or of what is configured, whichever is less, and
/// a few in any case.
[[nodiscard]] constexpr std::uint32_t most_connections(const DescriptorNeeds& needs, std::uint32_t configured,
                                                       std::uint32_t loops) {
  constexpr std::uint64_t kLeast = 16;
  const std::uint64_t share = (std::uint64_t{configured} + loops - 1) / loops;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(most_clients(needs) / loops, std::min<std::uint64_t>(kLeast, share), share));
}

}  // namespace kvist::gateway
