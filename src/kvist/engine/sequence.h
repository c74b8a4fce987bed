// A request inside the engine, private to it: what is known, what is computed, which blocks hold it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/request.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// Where a sequence stands. kEnded: its last output is out, but steps that compute it are still under way.
enum class Phase : std::uint8_t { kWaiting, kRunning, kEnded };

/// The state of one request from submission until its last step has ended. Owned by the Scheduler. Invariants, once it
/// runs:
///  - cached_tokens <= computed <= planned <= known();
///  - blocks cover exactly the planned tokens: blocks.size() == ceil(planned / block_size);
///  - the first committed_blocks of them are findable, under names[0 .. committed_blocks).
struct Sequence {
  Sequence(Request its_request, std::uint32_t its_output_limit, std::uint32_t block_size)
      : request(std::move(its_request)),
        output_limit(its_output_limit),
        total_blocks((final_computed() + block_size - 1) / block_size) {}

  [[nodiscard]] std::uint32_t prompt_tokens() const { return static_cast<std::uint32_t>(request.prompt.size()); }
  /// Tokens the answer has so far.
  [[nodiscard]] std::uint32_t output_tokens() const {
    return phase == Phase::kWaiting ? 0 : static_cast<std::uint32_t>(tokens.size()) - prompt_tokens();
  }
  /// Tokens that exist or will once the steps under way have ended: a sample that is still being computed counts, so
  /// that the next step can be planned before it is there.
  [[nodiscard]] std::uint32_t known() const { return static_cast<std::uint32_t>(tokens.size()) + pending_samples; }
  /// The most tokens that can ever be computed: nothing follows the last token of an answer, so it stays uncomputed.
  [[nodiscard]] std::uint32_t final_computed() const { return prompt_tokens() + output_limit - 1; }
  /// The catch-up rule: how many tokens the next step has to compute.
  [[nodiscard]] std::uint32_t behind() const { return std::min(known(), final_computed()) - planned; }

  const Request request;
  const std::uint32_t output_limit;  ///< tokens of the answer, at most: max_tokens and the context limit
  const std::uint32_t total_blocks;  ///< blocks it can ever need
  Phase phase = Phase::kWaiting;

  std::vector<TokenId> tokens;        ///< prompt and answer; filled when it is admitted
  std::uint32_t cached_tokens = 0;    ///< prompt tokens found in the prefix cache
  std::uint32_t planned = 0;          ///< tokens computed, or being computed by steps under way
  std::uint32_t computed = 0;         ///< tokens computed by steps that have ended
  std::uint32_t pending_samples = 0;  ///< samples of steps under way
  std::uint32_t steps_in_flight = 0;  ///< steps under way that compute some of it

  std::vector<kv::BlockId> blocks;
  std::vector<kv::BlockHash> names;  ///< of complete blocks: the prompt's from the first look-up on, the answer's later
  std::uint32_t committed_blocks = 0;
};

}  // namespace kvist::engine
