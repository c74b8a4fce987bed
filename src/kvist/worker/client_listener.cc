#include "kvist/worker/client_listener.h"

#include <algorithm>

#include "kvist/exposure/client_listener.h"

namespace kvist::worker {
namespace {

/// Subscribers to KV events, administration, the model's files. Without them idle clients would use up all descriptors,
/// and a worker that can accept nobody cannot close one for another either.
std::uint32_t most_connections(std::uint32_t configured, std::uint64_t descriptors) {
  constexpr std::uint64_t kOthers = 512;
  constexpr std::uint64_t kLeast = 16;
  const std::uint64_t left = std::max(kLeast, descriptors - std::min(descriptors, kOthers));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(configured, left));
}

}  // namespace

net::HttpServerOptions client_listener(const spec::WorkerSpec& worker, std::uint64_t descriptors) {
  net::HttpServerOptions options =
      exposure::client_listener({worker.http, worker.http_limits, worker.max_body_bytes, worker.cors});
  options.max_connections = most_connections(options.max_connections, descriptors);
  return options;
}

}  // namespace kvist::worker
