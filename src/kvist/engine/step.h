// One engine step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/token_logprobs.h"
#include "kvist/engine/token_run.h"
#include "kvist/kv/block_pool.h"
#include "kvist/perfmodel/step_load.h"

namespace kvist::engine {

/// Numbers steps of one engine, from 1. Steps end in the order in which they began.
using StepId = Id<struct StepTag, std::uint64_t>;

/// A request's slot, from its first admission to its release. Slots are below max_batch_size, so that state per request
/// can be kept in a vector, and are reused after a release.
using SlotId = Id<struct SlotTag, std::uint32_t>;

/// The part of one request in a step: its tokens [first, first + count) are computed.
struct SequenceStep {
  RequestId id;
  SlotId slot;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t drafts = 0;  ///< the last so many of the count are drafts, which the step verifies; at most 15
  bool samples = false;      ///< after this step all known tokens are computed, so the executor samples the next
  bool is_prefill = false;   ///< some of the tokens are prompt tokens (or tokens recomputed after preemption)
};

/// One ragged batch of prefill chunks and decodes.
struct StepPlan {
  StepId id;
  std::vector<SequenceStep> sequences;
  std::uint32_t in_run = 0;  ///< further sequences, of each of which one token is computed and one sampled (DecodeRun)
  /// If CoreOptions::block_tables is set: for each sequence the blocks of its tokens, in order, including those for the
  /// tokens that this step computes. They belong to the engine and are valid until the step ends.
  std::vector<std::span<const kv::BlockId>> block_tables;
  perfmodel::StepLoad load;
};

/// The sampled tokens of one request: one, and one more for each accepted draft. `ends`: the last one ends the answer;
/// the executor takes Request::ignore_eos into account.
struct SampledTokens {
  RequestId id;
  TokenRun tokens;
  bool ends = false;
  std::uint8_t drafted = 0;  ///< tokens that were really drafted, at most SequenceStep::drafts
};

/// Log probabilities of one request's tokens, in order.
struct SampledLogprobs {
  RequestId id;
  std::vector<TokenLogprobs> tokens = {};  ///< of the sampled ones; empty if they were not asked for
  /// Of the prompt's tokens from the second one on, with the first sample of a request that asks for them; otherwise
  /// null.
  std::shared_ptr<const std::vector<TokenLogprobs>> prompt = {};
};

/// The executor's result: one entry per sequence of the plan with `samples`, in the plan's order.
struct StepResult {
  std::vector<SampledTokens> sampled;
  std::vector<SampledLogprobs> logprobs = {};  ///< for the requests that ask for them, in the plan's order
};

}  // namespace kvist::engine
