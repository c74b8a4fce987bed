// The executor that computes: a Llama model on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvist/engine/cpu/forward_pass.h"
#include "kvist/engine/executor.h"
#include "kvist/engine/sampling/prompt_lookup.h"
#include "kvist/engine/sampling/sampler.h"
#include "kvist/engine/sampling/token_counts.h"

namespace kvist::engine::cpu {

/// Computes each plan as one ragged batch and samples the tokens it asks for. A request's tokens depend on its prompt,
/// its options and its seed alone: a row's result does not depend on its batch, random numbers are drawn by position,
/// and a draft is accepted only if it equals the token that would have been sampled.
///
/// Requires: block tables (CoreOptions::block_tables). Threads: finish() may run on another thread than the other
/// functions, while slots that are not in its plan are added and released.
class LlamaExecutor final : public Executor {
 public:
  struct Options {
    std::uint32_t max_batch_size = 0;
    std::vector<TokenId> end_tokens;   ///< of the model: they end an answer unless the request ignores them
    std::uint32_t vocabulary = 0;      ///< ids from here on are never sampled: padding rows of the model
    std::uint32_t max_logit_rows = 1;  ///< ForwardLimits::logit_rows
    bool drafts = true;                ///< plans may have drafts
  };
  /// Shares `forward` and, through it, the model and the cache.
  LlamaExecutor(std::shared_ptr<ForwardPass> forward, Options options);

  void on_admit(SlotId slot, const Request& request, std::span<const TokenId> prompt) override;
  void on_release(SlotId slot) override;
  /// Nothing: not known in advance.
  [[nodiscard]] std::optional<Duration> duration(const StepPlan& /*plan*/) override { return std::nullopt; }
  void finish(const StepPlan& plan, StepResult& result) override;

  /// The most rows of a step that need logits.
  [[nodiscard]] static std::uint32_t most_logit_rows(std::uint32_t max_batch_size, std::uint32_t most_drafts,
                                                     std::uint32_t max_num_tokens);

 private:
  struct Slot {
    RequestId request;
    std::shared_ptr<const SamplingOptions> sampling;
    std::uint64_t seed = 0;
    bool ignore_eos = false;
    std::uint32_t prompt_tokens = 0;
    PromptLookup text;            // prompt and answer
    TokenCounts counts;           // if the options penalize repetition
    std::vector<TokenId> drafts;  // of the step under way
    // Of the prompt's tokens from the second one on, as far as they are computed; null: not asked for, or given.
    std::shared_ptr<std::vector<TokenLogprobs>> prompt_logprobs;
  };

  /// Log probabilities of the prompt's tokens after those that the step has computed.
  void read_prompts(const StepPlan& plan, StepResult& result);
  void read_prompt(Slot& slot, const SequenceStep& step, std::size_t first_row);
  void add_rows(const SequenceStep& step, std::span<const kv::BlockId> blocks);
  void sample(const SequenceStep& step, const Logits& logits, std::size_t first_row, StepResult& result);
  [[nodiscard]] TokenId sample_one(Slot& slot, std::span<float> logits, std::vector<TokenLogprobs>* logprobs);
  [[nodiscard]] bool ends(const Slot& slot, TokenId token) const;
  void add_ends(const Slot& slot, std::vector<TokenId>& banned) const;

  std::shared_ptr<ForwardPass> forward_;
  Options options_;
  std::vector<Slot> slots_;
  Sampler sampler_;
  // Of one step; members, so that their memory is reused.
  std::vector<TokenId> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::uint32_t> logit_rows_;
  std::vector<std::uint32_t> more_rows_;
  std::vector<TokenId> banned_;
  std::vector<float> untouched_;
};

}  // namespace kvist::engine::cpu
