// A request inside the engine, private to it: what is known, what is computed, which blocks hold it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// Where a sequence stands.
enum class Phase : std::uint8_t {
  kWaiting,    ///< in the queue, without blocks; for the first time, or again after a preemption
  kRunning,    ///< in the batch
  kPreempted,  ///< is to go back to the queue, but steps that compute it are still under way
  kEnded,      ///< its last output is out, but steps that compute it are still under way
};

/// The state of one request from submission until its last step has ended. Owned by the Scheduler. Invariants, while it
/// runs:
///  - computed <= planned <= known(), but for drafts: a step that verifies k of them plans k more;
///  - blocks cover the planned tokens: blocks.size() >= ceil(planned / block_size), with equality but for rejected
///    drafts, whose blocks stay for the tokens that follow;
///  - the first committed_blocks of them are findable, under names[0 .. committed_blocks).
/// The members that every step touches come first, in one cache line and the next.
struct alignas(64) Sequence {
  Sequence(Request its_request, std::uint32_t its_output_limit, std::uint32_t block_size)
      : id(its_request.id),
        prompt_tokens(static_cast<std::uint32_t>(its_request.prompt.size())),
        final_computed(prompt_tokens + its_output_limit - 1),
        prefill_end(prompt_tokens),
        tokens(std::move(its_request.prompt)),
        output_limit(its_output_limit),
        total_blocks((final_computed + block_size - 1) / block_size),
        request(std::move(its_request)) {}

  /// Tokens the answer has so far.
  [[nodiscard]] std::uint32_t output_tokens() const { return certain() - prompt_tokens; }
  /// Tokens that exist: prompt and answer.
  [[nodiscard]] std::uint32_t certain() const { return static_cast<std::uint32_t>(tokens.size()); }
  /// Tokens that exist or will once the steps under way have ended: a sample that is still being computed counts, so
  /// that the next step can be planned before it is there.
  [[nodiscard]] std::uint32_t known() const { return certain() + pending_samples; }
  /// The catch-up rule: how many tokens the next step has to compute. Nothing follows the last token of an answer, so
  /// it stays uncomputed; and how many tokens a draft brings is known only when its step has ended.
  [[nodiscard]] std::uint32_t behind() const { return speculating ? 0 : std::min(known(), final_computed) - planned; }
  /// Everything before its newest token is computed or being computed: the next step samples.
  [[nodiscard]] bool decodes() const { return planned >= prefill_end; }

  const RequestId id;
  SlotId slot;
  Phase phase = Phase::kWaiting;
  bool admitted = false;     ///< once, at least: it has a slot, and the executor knows it
  bool speculating = false;  ///< a step that verifies drafts of it is under way
  const std::uint32_t prompt_tokens;
  const std::uint32_t final_computed;  ///< the most tokens that can ever be computed
  std::uint32_t prefill_end;           ///< tokens before it are prefill: the prompt, or all that a preemption lost
  std::uint32_t planned = 0;           ///< tokens computed, or being computed by steps under way
  std::uint32_t computed = 0;          ///< tokens computed by steps that have ended
  std::uint32_t pending_samples = 0;   ///< samples of steps under way
  std::uint32_t steps_in_flight = 0;   ///< steps under way that compute some of it
  std::uint32_t covered = 0;           ///< tokens its blocks have room for
  std::uint32_t next_commit = 0;       ///< with so many tokens computed, another block is complete
  std::vector<TokenId> tokens;         ///< prompt and answer
  std::uint32_t cached_tokens = 0;     ///< prompt tokens found in the prefix cache at its first admission
  const std::uint32_t output_limit;    ///< tokens of the answer, at most: max_tokens and the context limit
  const std::uint32_t total_blocks;    ///< blocks it can ever need
  std::uint64_t admission = 0;         ///< its number in the order of first admissions

  std::vector<kv::BlockId> blocks;
  std::vector<kv::BlockHash> names;  ///< of complete blocks: the prompt's from the first look-up on, the answer's later
  std::uint32_t committed_blocks = 0;
  // Of the last admission that failed: the blocks it would have taken from the free ones, and when that was, as
  // KvManager counts it. 0: none.
  std::uint32_t refused_blocks = 0;
  std::uint64_t refused_at = 0;
  const Request request;  ///< without its prompt
};

}  // namespace kvist::engine
