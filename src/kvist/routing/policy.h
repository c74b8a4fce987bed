// How a worker is chosen among candidates: one interface, one class per routing mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::routing {

/// How many leading blocks of a prompt a policy sees at most: as many as the record of a decision holds.
inline constexpr std::size_t kPolicyBlocks = 32;

/// What a policy may know of a request.
struct PolicyQuery {
  RequestId request;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_size = 0;
  std::span<const kv::BlockHash> blocks = {};  ///< names of the prompt's first complete blocks, at most kPolicyBlocks
  std::uint64_t session = 0;                   ///< what the client says the request belongs to, hashed; 0: nothing
};

/// A worker that could take the request: the inputs of the decision and the cost that came of them.
struct Candidate {
  WorkerId worker;
  std::uint32_t cached_blocks = 0;       ///< leading prompt blocks in the worker's cache, by the KV index
  std::uint32_t cached_tokens = 0;       ///< prompt tokens it will take from its cache: at least one is always computed
  std::uint32_t new_blocks = 0;          ///< complete prompt blocks that no other request on the worker uses
  std::uint32_t replicate_tokens = 0;    ///< of a hot prefix that it should hold too, being popular, but does not
  CacheTrust trust = CacheTrust::kNone;  ///< how well the cache is known
  EngineLimits limits = {};
  WorkerLoad load;  ///< without this request
  Forecast forecast = {};
  double cost = 0;  ///< the policy's: the lowest wins; infinite: not to be considered
};

/// Chooses one of the candidates. Deterministic: the same calls give the same choices. May keep state (whose turn it
/// is); owned by the router, used by its thread.
class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  /// Fills in every candidate's cost and returns the index of the chosen one. Requires at least one candidate, in
  /// ascending order of worker.
  [[nodiscard]] virtual std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) = 0;

  /// What the next choice depends on beside its arguments and the seed, such as whose turn it is: a policy of the same
  /// mode and seed with this state chooses the same. 0: as when new.
  [[nodiscard]] virtual std::uint64_t state() const { return 0; }
  virtual void set_state(std::uint64_t /*state*/) {}
  /// Whether the last choice was by the rule for times when predictions cannot be trusted.
  [[nodiscard]] virtual bool fell_back() const { return false; }
};

/// Where a worker is among candidates in ascending order of worker; their number where it is not.
[[nodiscard]] std::size_t position_of(std::span<const Candidate> candidates, WorkerId worker);

/// The policy of a mode. `seed` keys the random choices, together with the request's id.
[[nodiscard]] std::unique_ptr<RoutingPolicy> make_policy(spec::RoutingMode mode, std::uint64_t seed);

}  // namespace kvist::routing
