// The state of a request in the engine: its known and computed tokens and its blocks. Private to the engine.
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

/// The phases of a sequence.
enum class Phase : std::uint8_t {
  kWaiting,    ///< in the queue, without blocks; initially, or after a preemption
  kRunning,    ///< in the batch
  kPreempted,  ///< will go back to the queue when the steps that compute it have ended
  kEnded,      ///< its last output was given, but steps that compute it are still under way
};

/// A sequence's place in a DecodeRun, which owns it.
struct RunPlace {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t place = kNone;
  std::uint32_t first = 0;       ///< the position that first_step computes
  std::uint64_t first_step = 0;  ///< the first step in the run
  std::uint64_t last_step = 0;   ///< the step that samples the answer's last token, before which it leaves
};

/// The state of one request from submission until its last step has ended. Owned by the Scheduler. Invariants, while it
/// runs:
///  - computed <= planned <= known(), except for drafts: a step that verifies k of them plans k more;
///  - blocks cover the planned tokens: blocks.size() >= ceil(planned / block_size), with equality except for rejected
///    drafts, whose blocks are kept for the following tokens;
///  - the first committed_blocks of them are findable, under block_hashes[0 .. committed_blocks).
/// The members that every step uses come first, in two cache lines.
struct alignas(64) Sequence {
  Sequence(Request its_request, std::uint32_t its_output_limit, std::uint32_t block_size)
      : id(its_request.id),
        prompt_tokens(its_request.prompt_tokens()),
        final_computed(prompt_tokens + its_output_limit - 1),
        prefill_end(prompt_tokens),
        named_tokens(its_request.named_tokens),
        tokens(std::move(its_request.prompt)),
        output_limit(its_output_limit),
        total_blocks((final_computed + block_size - 1) / block_size),
        request(std::move(its_request)) {}

  /// The tokens of the answer so far.
  [[nodiscard]] std::uint32_t output_tokens() const { return certain() - prompt_tokens; }
  /// The tokens that exist: prompt and answer.
  [[nodiscard]] std::uint32_t certain() const { return named_tokens + static_cast<std::uint32_t>(tokens.size()); }
  /// The tokens that will exist when the steps under way have ended. A sample that is still being computed counts, so
  /// that the next step can be planned before it is available.
  [[nodiscard]] std::uint32_t known() const { return certain() + pending_samples; }
  /// The number of tokens that the next step has to compute. Nothing follows the last token of an answer, so it is not
  /// computed. While drafts are verified it is 0, because how many are accepted is only known when the step has ended.
  [[nodiscard]] std::uint32_t behind() const { return speculating ? 0 : std::min(known(), final_computed) - planned; }
  /// Whether its tokens may come from the prefix cache. Log probabilities of a prompt need every position of it
  /// computed; with the first sample there are all of them.
  [[nodiscard]] bool may_use_cache() const {
    return !(request.sampling && request.sampling->prompt_logprobs && certain() == prompt_tokens);
  }
  [[nodiscard]] bool in_run() const { return run.place != RunPlace::kNone; }
  /// Whether everything before the newest token is computed or being computed, so that the next step samples.
  [[nodiscard]] bool decodes() const { return planned >= prefill_end; }

  const RequestId id;
  SlotId slot;
  Phase phase = Phase::kWaiting;
  bool admitted = false;     ///< was admitted at least once: it has a slot, and the executor has state for it
  bool speculating = false;  ///< a step that verifies its drafts is under way
  const std::uint32_t prompt_tokens;
  const std::uint32_t final_computed;  ///< the most tokens that can be computed
  std::uint32_t prefill_end;   ///< tokens before it are prefill: the prompt, or everything that a preemption discarded
  std::uint32_t planned = 0;   ///< tokens computed, or being computed by steps under way
  std::uint32_t computed = 0;  ///< tokens computed by steps that have ended
  std::uint32_t pending_samples = 0;  ///< samples of steps under way
  std::uint32_t steps_in_flight = 0;  ///< steps under way that compute tokens of it
  std::uint32_t covered = 0;          ///< tokens that its blocks can hold
  std::uint32_t next_commit = 0;      ///< number of computed tokens at which the next block is complete
  const std::uint32_t named_tokens;   ///< of the prompt, before `tokens`: see Request
  std::vector<TokenId> tokens;        ///< prompt and answer, behind named_tokens
  std::uint32_t cached_tokens = 0;    ///< prompt tokens found in the prefix cache at its first admission
  const std::uint32_t output_limit;   ///< tokens of the answer, at most: max_tokens and the context limit
  const std::uint32_t total_blocks;   ///< blocks it can ever need
  std::uint64_t admission = 0;        ///< number in the order of first admissions

  RunPlace run = {};
  std::uint32_t untold_tokens = 0;  ///< the last ones before the next output's own, which came about in a run

  std::vector<kv::BlockId> blocks;
  std::vector<kv::BlockHash>
      block_hashes;  ///< of complete blocks: those of the prompt from the first look-up on, those of the answer later
  std::uint32_t committed_blocks = 0;
  // Of the last failed admission: the free blocks that it would have needed, and KvManager::gains() at that time. 0:
  // none failed.
  std::uint32_t refused_blocks = 0;
  std::uint64_t refused_at = 0;
  const Request request;  ///< without its prompt
};

}  // namespace kvist::engine
