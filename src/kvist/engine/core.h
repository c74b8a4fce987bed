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
#include "kvist/engine/executor.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"
#include "kvist/kv/kv_event.h"
#include "kvist/spec/deployment.h"

namespace kvist::engine {

/// Limits of one engine.
struct CoreOptions {
  std::string model;
  std::uint32_t block_size = 32;
  std::uint32_t kv_blocks = 1'024;
  std::uint32_t max_batch_size = 64;      ///< batch slots
  std::uint32_t max_num_tokens = 2'048;   ///< token budget of one step
  std::uint32_t max_model_len = 16'384;   ///< prompt and output of one request
  std::uint32_t max_waiting = 1'024;      ///< queued requests; beyond it submit() says kResourceExhausted
  std::uint32_t max_steps_in_flight = 1;  ///< 1, or 2 for overlap scheduling
  spec::AdmissionKind admission = spec::AdmissionKind::kReserveToCompletion;
  bool prefix_deferral = false;  ///< see spec::WorkerSpec
  spec::SpeculationSpec speculation = {};
};

/// What a step boundary brings.
struct StepOutputs {
  std::vector<RequestOutput> outputs;
  std::vector<kv::KvEvent> events;  ///< in the pool's order
};

/// A reading of the engine for metrics; counters are cumulative.
struct CoreStats {
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks_total = 0;
  std::uint32_t kv_blocks_used = 0;  ///< held by requests
  std::uint64_t steps = 0;
  std::uint64_t prefix_query_tokens = 0;  ///< prompt tokens looked up at admission
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t prompt_tokens = 0;     ///< prompt tokens of admitted requests
  std::uint64_t prefilled_tokens = 0;  ///< prompt tokens really computed
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefill_backlog_tokens =
      0;                           ///< uncached prompt tokens of waiting and running requests, not yet computed
  std::uint64_t draft_tokens = 0;  ///< verified
  std::uint64_t accepted_draft_tokens = 0;
  std::uint64_t evictions = 0;
  std::uint64_t finished = 0;
  std::uint64_t aborted = 0;
};

/// Scheduler, KV blocks and prefix cache of one worker. Deterministic: the same calls give the same results. One rule
/// covers prefill, chunking, prefix hits and decode: each request has computed and known tokens, and a step gives
/// tokens so that the first catches up with the second. Admission is first come, first served and reserves the blocks a
/// request can ever need (reserve to completion), so nothing is preempted. Used by one thread; `executor` must outlive
/// it.
class Core {
 public:
  Core(CoreOptions options, Executor& executor);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Queues a request. Errors: kInvalidArgument (no prompt, context too long, never fits the KV memory: with the
  /// numbers), kResourceExhausted (queue full).
  [[nodiscard]] Result<void> submit(Request request);
  /// Ends a request at the next step boundary; unknown ids are ignored. Its blocks stay held until the steps it takes
  /// part in have ended. Its last output has FinishReason::kAborted and comes with the next take_outputs() or
  /// end_step().
  void abort(RequestId id);

  /// Plans the next step; nothing when there is no work or max_steps_in_flight are under way.
  [[nodiscard]] std::optional<StepPlan> begin_step(TimePoint now);
  /// Ends the oldest step under way, which `plan` must be.
  [[nodiscard]] StepOutputs end_step(const StepPlan& plan, const StepResult& result, TimePoint now);
  /// What changed outside of steps (aborts of waiting requests, resets).
  [[nodiscard]] StepOutputs take_outputs();

  /// Forgets every cached prefix. False, and nothing happens, while requests are running.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] CoreStats stats() const;
  [[nodiscard]] bool idle() const;  ///< no request waiting or running, no step under way
  /// Names of findable blocks with their copies: what replaying all events must rebuild.
  [[nodiscard]] std::unordered_map<kv::BlockHash, std::uint32_t> findable_blocks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::engine
