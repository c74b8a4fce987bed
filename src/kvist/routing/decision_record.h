// The record of a routing decision: what the policy saw, what it chose, and how the request went.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/policy.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::routing {

/// Which rule decided.
enum class DecisionReason : std::uint8_t {
  kPolicy,     ///< the mode's policy
  kSafetyNet,  ///< the fallback rule of the mode's policy, because its predictions were too wrong
};
inline constexpr std::array kDecisionReasons = {DecisionReason::kPolicy, DecisionReason::kSafetyNet};
[[nodiscard]] std::string_view to_string(DecisionReason reason);

/// How the attempt at the chosen worker ended.
enum class AttemptState : std::uint8_t { kUnderWay, kCompleted, kFailed };
inline constexpr std::array kAttemptStates = {AttemptState::kUnderWay, AttemptState::kCompleted, AttemptState::kFailed};
[[nodiscard]] std::string_view to_string(AttemptState state);

/// What happened after a decision.
struct Aftermath {
  AttemptState state = AttemptState::kUnderWay;
  std::optional<Duration> ttft = {};                ///< from the decision to the first token
  std::optional<std::uint64_t> cached_tokens = {};  ///< of the prompt, as the engine reported in its usage
  std::uint64_t output_tokens = 0;                  ///< as streamed; 0 until the attempt has ended
  std::optional<Duration> duration = {};            ///< from the decision to the end
  std::string failure = {};                         ///< why the attempt failed; empty if it did not, or not known
  friend bool operator==(const Aftermath&, const Aftermath&) = default;
};

/// Everything except `after` is known when the decision is made.
struct DecisionRecord {
  std::uint64_t number = 0;  ///< counts the decisions of a router from 1
  RequestId request;
  std::string name = {};  ///< the client's X-Request-Id, or the one that the gateway generated; empty in the simulation
  TimePoint at;
  // The inputs of the policy. A replay needs all of them.
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint64_t seed = 0;
  std::uint64_t policy_state = 0;  ///< RoutingPolicy::state() before the choice
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_size = 0;
  std::uint64_t session = 0;
  double ttft_weight = 1;
  double in_transit = 0;
  double recomputed = 0;
  double mean_waiting = 0;                       ///< 0 where `recomputed` is, because it does not matter then
  std::vector<kv::BlockHash> first_blocks = {};  ///< at most kPolicyBlocks of the prompt's
  std::vector<Candidate> candidates = {};        ///< in ascending order of worker, the chosen one among them
  /// Further candidates. None costs less than those that are kept, apart from the chosen one and the one that is kept
  /// because it has no requests (DecisionLog).
  std::uint32_t left_out = 0;
  // Not inputs of the policy.
  std::optional<FoundFleet> fleet = {};  ///< of all candidates, if some were left out and the mode's policy asks
  std::uint32_t prompt_blocks = 0;       ///< complete blocks of the prompt
  /// The workers that were tried before (the request's retries so far) and those that its proxy may not give it to.
  std::vector<WorkerId> excluded = {};
  std::optional<WorkerId> session_worker = {};  ///< where the session's requests went last, with session affinity
  /// New workers that had as many requests without a first token as they may (dispatch/warm_up.h): no candidates.
  std::vector<WorkerId> held_back = {};
  std::string adapter = {};  ///< that the request asks for: only workers that have it are candidates
  WorkerId chosen;
  DecisionReason reason = DecisionReason::kPolicy;
  Aftermath after = {};

  [[nodiscard]] PolicyQuery query() const {
    return {.request = request,
            .prompt_tokens = prompt_tokens,
            .block_size = block_size,
            .blocks = first_blocks,
            .session = session,
            .ttft_weight = ttft_weight,
            .in_transit = in_transit,
            .recomputed = recomputed,
            .mean_waiting = mean_waiting};
  }
};

}  // namespace kvist::routing
