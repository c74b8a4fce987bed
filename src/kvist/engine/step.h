// One engine step: what is computed together.
#pragma once

#include <cstdint>
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

/// A request's place among those admitted and not yet released: below max_batch_size, so that whoever keeps state per
/// request keeps it in a vector. Given at the first admission, used again after the release.
using SlotId = Id<struct SlotTag, std::uint32_t>;

/// The part of one request in a step: its tokens [first, first + count) are computed.
struct SequenceStep {
  RequestId id;
  SlotId slot;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t drafts = 0;  ///< of the count, the last so many are drafts, which the step verifies: at most 15
  bool samples = false;  ///< the request's known tokens are all computed after this step: the executor samples the next
  bool is_prefill = false;  ///< some of the tokens are prompt tokens (or tokens recomputed after preemption)
};

/// One ragged batch: prefill chunks and decodes together.
struct StepPlan {
  StepId id;
  std::vector<SequenceStep> sequences;
  /// Where CoreOptions::block_tables asks for them: of each of the sequences the blocks that hold its tokens, in order,
  /// with room for those that this step computes. They belong to the engine and hold until the step ends.
  std::vector<std::span<const kv::BlockId>> block_tables;
  perfmodel::StepLoad load;
};

/// Sampled tokens of one request: one, and one more for each accepted draft; `ends` where the last ends the answer: the
/// executor minds Request::ignore_eos.
struct SampledTokens {
  RequestId id;
  TokenRun tokens;
  bool ends = false;
  std::uint8_t drafted =
      0;  ///< tokens that were really drafted, at most SequenceStep::drafts: a drafter may have fewer
};

/// Of tokens of one request, in order.
struct SampledLogprobs {
  RequestId id;
  std::vector<TokenLogprobs> tokens;
};

/// What the executor brought back: one entry per sequence of the plan with `samples`, in the plan's order.
struct StepResult {
  std::vector<SampledTokens> sampled;
  std::vector<SampledLogprobs> logprobs = {};  ///< of the requests that ask for them, in the plan's order
};

}  // namespace kvist::engine
