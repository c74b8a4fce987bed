// The engine without network, threads or clock: requests in, step plans and outputs out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core_options.h"
#include "kvist/engine/executor.h"
#include "kvist/engine/request.h"
#include "kvist/engine/speculation.h"
#include "kvist/engine/step.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/spec/deployment.h"

namespace kvist::engine {

/// A request that got its slot, for the first time.
struct Admission {
  RequestId id;
  TimePoint at;  ///< the beginning of its first step

  bool operator==(const Admission&) const = default;
};

/// What a step boundary brings. Whoever drives an engine hands the same object in again and again: its memory is kept.
struct StepOutputs {
  std::vector<RequestOutput> outputs;
  std::vector<SampledLogprobs> logprobs = {};  ///< of the tokens of some of the outputs, in their order
  std::vector<kv::KvEvent> events;             ///< in the pool's order
  std::vector<Admission> admitted = {};        ///< since the last call, in order; each before its first output
};

/// A reading of the engine for metrics; counters are cumulative.
struct CoreStats {
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks_total = 0;
  std::uint32_t kv_blocks_used = 0;       ///< held by requests
  std::uint64_t steps = 0;                ///< ended
  std::uint64_t prefill_steps = 0;        ///< of these, those that computed prompt tokens and decoded nobody
  std::uint64_t mixed_steps = 0;          ///< of these, those that did both; all others only decoded
  std::uint64_t prefix_query_tokens = 0;  ///< prompt tokens looked up at the first admission of each request
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t prompt_tokens = 0;     ///< prompt tokens of admitted requests
  std::uint64_t prefilled_tokens = 0;  ///< prompt tokens really computed, and what was recomputed after preemptions
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  /// Tokens that steps have to compute before all requests decode: those of the running ones that are not computed
  /// yet, and all prompt tokens of the waiting ones (what the cache will spare them is known at admission only).
  std::uint64_t prefill_backlog_tokens = 0;
  std::uint64_t drafts = 0;        ///< runs of draft tokens verified: one per decoding sequence and step with drafts
  std::uint64_t draft_tokens = 0;  ///< in these
  std::uint64_t accepted_draft_tokens = 0;
  std::uint64_t evictions = 0;
  std::uint64_t finished = 0;
  std::uint64_t aborted = 0;
};

/// Scheduler, KV blocks and prefix cache of one worker. Deterministic: the same calls give the same results. One rule
/// covers prefill, chunking, prefix hits, decode and coming back after a preemption: each request has computed and
/// known tokens, and a step gives tokens so that the first catches up with the second. Admission is first come, first
/// served. With spec::AdmissionKind::kReserveToCompletion it reserves the blocks a request can ever need, so nothing is
/// preempted; with kGreedy the last admitted gives way when memory runs out, and is computed again later. Answers are
/// the same under any of it. Used by one thread; `executor` must outlive it. In steady state a step allocates no memory
/// but for its KV events.
class Core {
 public:
  /// Without a policy of speculation nothing is drafted.
  Core(CoreOptions options, Executor& executor, std::unique_ptr<SpeculationPolicy> speculation = nullptr);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Whether submit() would take the request if `also_waiting` more were in the queue. Errors: kInvalidArgument (no
  /// prompt, context too long, never fits the KV memory, id in use: with the numbers), kResourceExhausted (queue full).
  [[nodiscard]] Result<void> check(const Request& request, std::uint32_t also_waiting = 0) const;
  /// Queues a request. Errors: see check().
  [[nodiscard]] Result<void> submit(Request request);
  /// Queues a request that check() has found good, however long the queue has grown since (preempted requests come
  /// back to it).
  void enqueue(Request request);
  /// Ends a request at the next step boundary; unknown ids are ignored. Its blocks stay held until the steps it takes
  /// part in have ended. Its last output has FinishReason::kAborted and comes with the next take_outputs() or
  /// end_step().
  void abort(RequestId id);

  /// Plans the next step in place of what `plan` holds. False when there is no work, or max_steps_in_flight are under
  /// way, or one that verifies drafts.
  [[nodiscard]] bool begin_step(TimePoint now, StepPlan& plan);
  /// Ends the oldest step under way, which `plan` must be. What has happened since the last call, in place of what
  /// `outputs` holds.
  void end_step(const StepPlan& plan, const StepResult& result, TimePoint now, StepOutputs& outputs);
  /// What changed outside of steps (aborts of waiting requests, resets), in place of what `outputs` holds.
  void take_outputs(StepOutputs& outputs);

  /// Forgets every cached prefix. False, and nothing happens, while requests are running.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] CoreStats stats() const;
  [[nodiscard]] std::uint32_t running() const;  ///< CoreStats::running
  [[nodiscard]] std::uint32_t waiting() const;  ///< CoreStats::waiting
  [[nodiscard]] bool idle() const;              ///< no request waiting or running, no step under way
  /// Names of findable blocks with their copies: what replaying all events must rebuild.
  [[nodiscard]] std::unordered_map<kv::BlockHash, std::uint32_t> findable_blocks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::engine
