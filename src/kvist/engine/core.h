// The engine without network, threads or clock: takes requests, gives step plans and outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core_view.h"
#include "kvist/engine/executor.h"
#include "kvist/engine/request.h"
#include "kvist/engine/speculation.h"
#include "kvist/engine/step.h"
#include "kvist/kv/block_hash.h"
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
  std::uint32_t max_waiting = 1'024;      ///< queued requests; beyond it submit() returns kResourceExhausted
  std::uint32_t max_steps_in_flight = 1;  ///< 1, or 2 for overlap scheduling (with drafts never more than 1)
  spec::AdmissionKind admission = spec::AdmissionKind::kReserveToCompletion;
  bool prefix_deferral = false;                    ///< see spec::WorkerSpec
  bool prefix_when_planned = false;                ///< likewise
  std::uint32_t long_prefill_token_threshold = 0;  ///< likewise
  bool block_tables = false;                       ///< fill StepPlan::block_tables; with one step in flight only
  /// Use a cached block only if it holds the prompt's tokens, for executors that read what is in it. Hashes alone can
  /// be made to agree by who chooses prompts.
  bool compares_tokens = false;
  /// KV events have the tokens of blocks. Otherwise whoever gets them believes their names.
  bool tells_tokens = true;
  /// Advance decoding sequences together where nothing else is due (StepOutputs::in_run), if the executor has an
  /// AnswerSource and nothing is drafted. For callers that need not see each token at once.
  bool decode_runs = false;
};

/// The limits of a worker with any executor.
[[nodiscard]] CoreOptions core_options(const spec::WorkerSpec& worker);

/// A request that was admitted for the first time.
struct Admission {
  RequestId id;
  TimePoint at;  ///< the beginning of its first step

  bool operator==(const Admission&) const = default;
};

/// The results of a step boundary. Drivers pass the same object to every call, so that its memory is reused.
///
/// With CoreOptions::decode_runs a request may be in a run: it has one token more with each step, and no output until
/// it has left the run. Its next output has all of these tokens.
struct StepOutputs {
  std::vector<RequestOutput> outputs;
  std::vector<SampledLogprobs> logprobs = {};  ///< of the tokens of some of the outputs, in their order
  std::vector<kv::KvEvent> events;             ///< in the pool's order
  std::vector<Admission> admitted =
      {};                    ///< since the last call, in order; a request is in it no later than its first output
  std::uint32_t in_run = 0;  ///< requests that are in the run and have one token more with this step
  std::vector<RequestId> joined_run = {};  ///< of these, the ones that were not in the run before
  std::vector<RequestId> left_run = {};    ///< those that were in it and are not any more
  std::vector<TokenId> run_tokens = {};    ///< RequestOutput::run_tokens of all outputs, in their order
};

/// The engine's figures for metrics. Counters are cumulative.
struct CoreStats {
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks_total = 0;
  std::uint32_t kv_blocks_used = 0;  ///< held by requests
  std::uint64_t steps = 0;           ///< ended
  std::uint64_t prefill_steps = 0;   ///< of these, those that computed prompt tokens only
  std::uint64_t mixed_steps = 0;     ///< of these, those with both prompt tokens and decodes; all others only decoded
  std::uint64_t prefix_query_tokens = 0;  ///< prompt tokens looked up at the first admission of each request
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t prompt_tokens = 0;  ///< prompt tokens of admitted requests
  std::uint64_t prefilled_tokens =
      0;  ///< prompt tokens that were computed, including those recomputed after preemptions
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  /// The tokens that have to be computed before all requests decode: the uncomputed ones of running requests, and all
  /// prompt tokens of waiting ones (how many the cache saves is only known at admission).
  std::uint64_t prefill_backlog_tokens = 0;
  std::uint64_t drafts = 0;        ///< runs of draft tokens verified: one per decoding sequence and step with drafts
  std::uint64_t draft_tokens = 0;  ///< in these runs
  std::uint64_t accepted_draft_tokens = 0;
  std::uint64_t evictions = 0;
  std::uint64_t finished = 0;
  std::uint64_t aborted = 0;
};

/// Scheduler, KV blocks and prefix cache of one worker. Deterministic: the same calls give the same results. One rule
/// covers prefill, chunking, prefix hits, decode and the recomputation after a preemption: each request has known and
/// computed tokens, and a step computes tokens so that the second number catches up with the first. Admission is first
/// come, first served. With spec::AdmissionKind::kReserveToCompletion it reserves all blocks that a request can need,
/// so nothing is preempted. With kGreedy the last admitted request is preempted when memory runs out, and computed
/// again later. Answers do not depend on any of this. In steady state a step allocates memory only for its KV events.
/// Threads: one. Requires: `executor` outlives it.
class Core {
 public:
  /// Without a speculation policy nothing is drafted.
  Core(CoreOptions options, Executor& executor, std::unique_ptr<SpeculationPolicy> speculation = nullptr);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Checks whether submit() would accept the request with `also_waiting` more in the queue. Errors: kInvalidArgument
  /// (no prompt, context too long, larger than the KV memory, id in use: with the numbers), kResourceExhausted (queue
  /// full).
  [[nodiscard]] Result<void> check(const Request& request, std::uint32_t also_waiting = 0) const;
  /// Queues a request. Errors: see check().
  [[nodiscard]] Result<void> submit(Request request);
  /// Queues a request, even if the queue is full by now, because preempted requests have returned to it. Requires:
  /// check() accepted the request.
  void enqueue(Request request);
  /// Ends a request at the next step boundary; unknown ids are ignored. Its blocks are held until the steps that it
  /// takes part in have ended. Its last output has FinishReason::kAborted and is in the next take_outputs() or
  /// end_step().
  void abort(RequestId id);

  /// Plans the next step and replaces the content of `plan`. Returns false if there is no work, max_steps_in_flight are
  /// under way, or a step that verifies drafts is.
  [[nodiscard]] bool begin_step(TimePoint now, StepPlan& plan);
  /// Ends the oldest step under way. Replaces the content of `outputs` by what has happened since the last call.
  /// Requires: `plan` is that step's.
  void end_step(const StepPlan& plan, const StepResult& result, StepOutputs& outputs);
  /// Replaces the content of `outputs` by what has happened outside of steps (aborts of waiting requests, resets).
  void take_outputs(StepOutputs& outputs);

  /// Changes CoreOptions::max_num_tokens for the steps to come.
  void set_max_num_tokens(std::uint32_t tokens);
  /// Forgets every cached prefix. Returns false and does nothing while requests are running.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] CoreStats stats() const;
  [[nodiscard]] std::uint32_t running() const;  ///< CoreStats::running
  [[nodiscard]] std::uint32_t waiting() const;  ///< CoreStats::waiting
  [[nodiscard]] bool idle() const;              ///< no request waiting or running, no step under way
  /// Replaces the content of `view` by what is in the engine now. It refers to the engine and is valid until the next
  /// call that changes something. Not const, because block hashes of waiting prompts may be computed for it.
  void look(CoreView& view);
  /// The hashes of findable blocks with the number of their copies, which a replay of all events must reproduce.
  [[nodiscard]] std::unordered_map<kv::BlockHash, std::uint32_t> findable_blocks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::engine
