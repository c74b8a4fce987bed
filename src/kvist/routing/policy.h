// How a worker is chosen among candidates: one interface, one class per routing mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::routing {

/// The most leading blocks of a prompt that a policy sees, which is as many as the record of a decision holds.
inline constexpr std::size_t kPolicyBlocks = 32;

/// What a policy may know of a request.
struct PolicyQuery {
  RequestId request;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_size = 0;
  std::span<const kv::BlockHash> blocks = {};  ///< hashes of the prompt's first complete blocks, at most kPolicyBlocks
  std::uint64_t session = 0;                   ///< hash of the session that the client named (session_key()); 0: none
  double ttft_weight = 1;                      ///< spec::ObjectiveSpec::ttft
  double in_transit = 0;                       ///< Forecaster::in_transit() per worker that can be used
  double recomputed = 0;                       ///< GhostCache::recomputed()
  double mean_waiting = 0;                     ///< the mean of FoundFleet::waiting over the last few hundred decisions
};

/// What the costs of a decision depend on apart from the query and each worker by itself. It follows from all
/// candidates.
struct FoundFleet {
  double waiting = 0;               ///< F of KvPolicy: that wait for a first token, per candidate, less in_transit
  bool any_room = true;             ///< some candidate has a free slot and free KV memory
  std::uint32_t cached_tokens = 0;  ///< the deepest cache among candidates that are not scarce (Forecast::scarce)
  friend bool operator==(const FoundFleet&, const FoundFleet&) = default;
};

/// A worker that could take the request: the inputs of the decision, and the cost that the policy computed from them.
struct Candidate {
  WorkerId worker;
  std::uint32_t cached_blocks = 0;       ///< leading prompt blocks in the worker's cache, by CacheKnowledge
  std::uint32_t cached_tokens = 0;       ///< prompt tokens that the cache saves; at least one is always computed
  std::uint32_t new_blocks = 0;          ///< complete prompt blocks that no other request on the worker uses
  std::uint32_t lower_tier_blocks = 0;   ///< of its cached blocks, outside of device memory: these count by weight
  std::uint32_t replicate_tokens = 0;    ///< tokens of a hot prefix that this worker lacks and should have a copy of
  CacheTrust trust = CacheTrust::kNone;  ///< how well the cache is known
  EngineLimits limits = {};
  WorkerLoad load;  ///< without this request
  Forecast forecast = {};
  double affinity_ms = 0;  ///< what it costs to leave the worker of the request's session for this one
  double cost = 0;         ///< set by the policy: the lowest wins, infinite excludes the worker
};

/// Chooses one of the candidates. Deterministic: the same calls give the same choices. A policy may keep state, such as
/// whose turn it is. Threads: the router's.
class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  /// Sets every candidate's cost and returns the index of the chosen one. Requires: at least one candidate, and
  /// candidates in ascending order of worker.
  [[nodiscard]] virtual std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) = 0;

  /// What the next choice depends on apart from its arguments and the seed, such as whose turn it is. Ensures: a policy
  /// of the same mode and seed with this state makes the same choice. 0 is the state of a new policy.
  [[nodiscard]] virtual std::uint64_t state() const { return 0; }
  virtual void set_state(std::uint64_t /*state*/) {}
  /// Whether the last choice was made by the fallback rule, because predictions were too wrong.
  [[nodiscard]] virtual bool fell_back() const { return false; }
  /// The fleet as the last choice found it; nothing where a policy does not ask.
  [[nodiscard]] virtual std::optional<FoundFleet> found() const { return std::nullopt; }
};

/// The index of a worker among candidates in ascending order of worker, or candidates.size() if it is not among them.
[[nodiscard]] std::size_t position_of(std::span<const Candidate> candidates, WorkerId worker);

/// Makes the policy of a mode. Random choices are keyed by `seed` and the request's id.
[[nodiscard]] std::unique_ptr<RoutingPolicy> make_policy(spec::RoutingMode mode, std::uint64_t seed);
/// Whether choices of the mode depend on the seed.
[[nodiscard]] bool uses_seed(spec::RoutingMode mode);

}  // namespace kvist::routing
