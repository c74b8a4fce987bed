#include "kvist/engine/core.h"

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/engine/admission.h"
#include "kvist/engine/decode_run.h"
#include "kvist/engine/kv_manager.h"
#include "kvist/engine/scheduler.h"
#include "kvist/engine/sequence.h"

namespace kvist::engine {

CoreOptions core_options(const spec::WorkerSpec& worker) {
  return {.model = worker.model,
          .block_size = worker.block_size,
          .kv_blocks = worker.kv_blocks,
          .max_batch_size = worker.max_batch_size,
          .max_num_tokens = worker.max_num_tokens,
          .max_model_len = worker.max_model_len,
          .max_waiting = worker.max_waiting,
          .max_steps_in_flight = worker.max_steps_in_flight,
          .admission = worker.admission,
          .prefix_deferral = worker.prefix_deferral,
          .prefix_when_planned = worker.prefix_when_planned,
          .long_prefill_token_threshold = worker.long_prefill_token_threshold};
}

class Core::Impl {
 public:
  Impl(CoreOptions options, Executor& executor, std::unique_ptr<SpeculationPolicy> speculation)
      : options_(std::move(options)),
        executor_(&executor),
        speculation_(std::move(speculation)),
        kv_(options_.model, options_.kv_blocks, options_.block_size, AdmissionPolicy::make(options_.admission),
            {.compares_tokens = options_.compares_tokens, .tells_tokens = options_.tells_tokens}),
        run_(options_.decode_runs && executor.answers() != nullptr && speculation_ == nullptr && !options_.block_tables
                 ? std::make_unique<DecodeRun>(*executor.answers(), options_.block_size)
                 : nullptr),
        scheduler_({.max_batch_size = options_.max_batch_size,
                    .max_num_tokens = options_.max_num_tokens,
                    .prefix_deferral = options_.prefix_deferral,
                    .prefix_when_planned = options_.prefix_when_planned,
                    .long_prefill_token_threshold = options_.long_prefill_token_threshold},
                   kv_, speculation_.get(), run_.get()) {
    KVIST_CHECK(options_.block_size > 0 && options_.kv_blocks > 0, "an engine needs KV blocks");
    KVIST_CHECK(options_.max_batch_size > 0 && options_.max_num_tokens > 0, "an engine needs slots and a token budget");
    KVIST_CHECK(options_.max_steps_in_flight == 1 || options_.max_steps_in_flight == 2,
                fmt::format("max_steps_in_flight is {}, not 1 or 2", options_.max_steps_in_flight));
    KVIST_CHECK(!options_.block_tables || options_.max_steps_in_flight == 1,
                "block tables hold for one step in flight");
  }

  [[nodiscard]] Result<void> check(const Request& request, std::uint32_t also_waiting) const;
  void enqueue(Request request);
  void abort(RequestId id);
  bool begin_step(TimePoint now, StepPlan& plan);
  void end_step(const StepPlan& plan, const StepResult& result, StepOutputs& outputs);
  void take_outputs(StepOutputs& outputs);
  void take_all_but_events(StepOutputs& outputs);
  void set_max_num_tokens(std::uint32_t tokens);
  bool reset_prefix_cache();
  [[nodiscard]] CoreStats stats() const;
  void look(CoreView& view) { scheduler_.look(view); }
  [[nodiscard]] const KvManager& kv() const { return kv_; }
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] bool idle() const {
    return scheduler_.running() == 0 && scheduler_.waiting() == 0 && in_flight_.empty();
  }

 private:
  [[nodiscard]] std::uint32_t output_limit(const Request& request) const;
  void fill_block_tables(StepPlan& plan) const;
  /// What ends with a step, in the order in which it is dealt with.
  struct EndedPart {
    std::uint64_t admission = 0;         ///< of the sequence
    const SequenceStep* step = nullptr;  ///< of the plan, or taken out of the run
    bool taken_out = false;
    Sequence* completing = nullptr;  ///< a sequence in the run of which a block is complete
  };
  [[nodiscard]] static const SampledTokens* sample_of(const SequenceStep& step, const StepResult& result,
                                                      std::size_t& next);
  void end_parts(const StepPlan& plan, const StepResult& result, std::span<const SequenceStep> taken_out);
  void end_of_step(const SequenceStep& step, const SampledTokens* sampled);
  void count_drafts(std::uint32_t drafted, const SampledTokens& sampled);
  void take_samples(Sequence& sequence, const SampledTokens& sampled);
  void end(Sequence& sequence, const TokenRun& tokens, FinishReason reason);
  void put_out(Sequence& sequence, const TokenRun& tokens, std::optional<FinishReason> finish);
  void leave_batch(Sequence& sequence);

  CoreOptions options_;
  Executor* executor_;
  std::unique_ptr<SpeculationPolicy> speculation_;  // may be null
  KvManager kv_;
  std::unique_ptr<DecodeRun> run_;  // may be null
  Scheduler scheduler_;
  std::deque<StepId> in_flight_;          // oldest first
  std::vector<RequestOutput> outputs_;    // not yet taken
  std::vector<Admission> admitted_;       // likewise
  std::vector<Sequence*> just_admitted_;  // of one begin_step(); a member to reuse its memory
  std::vector<TokenId> run_tokens_;       // of outputs_
  std::vector<Sequence*> completing_;     // in the run, of one end_step(), likewise
  std::vector<EndedPart> ended_parts_;    // likewise
  bool speculating_ = false;              // the latest step under way verifies drafts
  std::uint64_t last_step_ = 0;
  CoreStats counters_;  // only the core's own cumulative counters
};

std::uint32_t Core::Impl::output_limit(const Request& request) const {
  return std::min(request.max_tokens, options_.max_model_len - request.prompt_tokens());
}

Result<void> Core::Impl::check(const Request& request, std::uint32_t also_waiting) const {
  if (request.prompt_tokens() == 0) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (request.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "max_tokens is 0, at least 1 is needed");
  if (request.prompt_tokens() >= options_.max_model_len) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt has {} tokens; the context holds {} with at least one token of the answer",
                            request.prompt_tokens(), options_.max_model_len));
  }
  const std::uint64_t tokens = std::uint64_t{request.prompt_tokens()} + output_limit(request) - 1;
  const std::uint64_t blocks = (tokens + options_.block_size - 1) / options_.block_size;
  if (blocks > options_.kv_blocks) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} prompt tokens and up to {} of the answer need {} KV blocks of {} tokens; there are {}",
                    request.prompt_tokens(), output_limit(request), blocks, options_.block_size, options_.kv_blocks));
  }
  if (scheduler_.find(request.id) != nullptr) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("request id {} is in use", request.id.value()));
  }
  if (scheduler_.waiting() + also_waiting >= options_.max_waiting) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} requests are waiting, the most allowed", options_.max_waiting));
  }
  return {};
}

void Core::Impl::enqueue(Request request) {
  KVIST_CHECK(request.named_tokens == 0 || (!options_.tells_tokens && !options_.compares_tokens),
              "an engine that tells or compares tokens gets all of them");
  const std::uint32_t limit = output_limit(request);
  scheduler_.add(std::move(request), limit);
}

void Core::Impl::abort(RequestId id) {
  Sequence* const sequence = scheduler_.find(id);
  if (sequence == nullptr || sequence->phase == Phase::kEnded) return;
  scheduler_.take_out_of_run(*sequence);
  end(*sequence, {}, FinishReason::kAborted);
  if (sequence->steps_in_flight == 0) leave_batch(*sequence);
}

bool Core::Impl::begin_step(TimePoint now, StepPlan& plan) {
  // No step begins while another one verifies drafts. Otherwise requests that join the next step would stay apart from
  // the others for good: each half of the batch would be computed while the other waits for its drafts.
  if (in_flight_.size() >= options_.max_steps_in_flight || speculating_) return false;
  just_admitted_.clear();
  scheduler_.plan(plan, just_admitted_);
  plan.id = StepId(last_step_ + 1);
  for (const Sequence* sequence : just_admitted_) {
    admitted_.push_back({.id = sequence->id, .at = now});
    counters_.prompt_tokens += sequence->prompt_tokens;
    if (sequence->may_use_cache()) counters_.prefix_query_tokens += sequence->prompt_tokens;
    counters_.prefix_hit_tokens += sequence->cached_tokens;
    executor_->on_admit(sequence->slot, sequence->request, sequence->tokens);
  }
  if (plan.sequences.empty() && plan.in_run == 0) return false;
  if (options_.block_tables) fill_block_tables(plan);
  in_flight_.push_back(plan.id);
  speculating_ = plan.load.draft_passes > 0;
  ++last_step_;
  if (run_) run_->on_begun();
  scheduler_.let_join();
  return true;
}

void Core::Impl::fill_block_tables(StepPlan& plan) const {
  plan.block_tables.clear();
  for (const SequenceStep& step : plan.sequences) plan.block_tables.emplace_back(scheduler_.at(step.slot).blocks);
}

void Core::Impl::end_step(const StepPlan& plan, const StepResult& result, StepOutputs& outputs) {
  KVIST_CHECK(!in_flight_.empty() && in_flight_.front() == plan.id,
              fmt::format("step {} ended out of order", plan.id.value()));
  in_flight_.pop_front();
  if (plan.load.draft_passes > 0) speculating_ = false;
  ++counters_.steps;
  if (plan.load.prefill_tokens > 0)
    ++(plan.load.decode_sequences > 0 ? counters_.mixed_steps : counters_.prefill_steps);
  counters_.prefilled_tokens += plan.load.prefill_tokens;
  DecodeRun::Step run;
  completing_.clear();
  if (run_) run = run_->on_ended(completing_);
  counters_.generated_tokens += run.size;
  if (run.taken_out.empty() && completing_.empty()) {
    std::size_t next_sample = 0;
    for (const SequenceStep& step : plan.sequences) end_of_step(step, sample_of(step, result, next_sample));
    KVIST_CHECK(next_sample == result.sampled.size(), "samples of no sequence");
  } else {
    end_parts(plan, result, run.taken_out);
  }
  take_all_but_events(outputs);
  kv_.pool().take_events(outputs.events);
  outputs.logprobs = result.logprobs;
  outputs.in_run = run.size;
  outputs.joined_run = std::move(run.joined);
}

const SampledTokens* Core::Impl::sample_of(const SequenceStep& step, const StepResult& result, std::size_t& next) {
  if (!step.samples) return nullptr;
  KVIST_CHECK(next < result.sampled.size(), "a sample is missing");
  return &result.sampled[next++];
}

// Everything is done in the order of admission, which is the plan's, as without a run.
void Core::Impl::end_parts(const StepPlan& plan, const StepResult& result, std::span<const SequenceStep> taken_out) {
  ended_parts_.clear();
  for (const SequenceStep& step : plan.sequences)
    ended_parts_.push_back({.admission = scheduler_.at(step.slot).admission, .step = &step});
  for (const SequenceStep& step : taken_out)
    ended_parts_.push_back({.admission = scheduler_.at(step.slot).admission, .step = &step, .taken_out = true});
  for (Sequence* const sequence : completing_)
    ended_parts_.push_back({.admission = sequence->admission, .completing = sequence});
  std::ranges::sort(ended_parts_, {}, &EndedPart::admission);
  std::size_t next_sample = 0;
  for (const EndedPart& part : ended_parts_) {
    if (part.completing != nullptr) {
      run_->catch_up(*part.completing);
      kv_.commit_computed(*part.completing);
    } else if (part.taken_out) {
      const SampledTokens sampled = run_->sample(*part.step);
      end_of_step(*part.step, &sampled);
    } else {
      end_of_step(*part.step, sample_of(*part.step, result, next_sample));
    }
  }
  KVIST_CHECK(next_sample == result.sampled.size(), "samples of no sequence");
}

void Core::Impl::end_of_step(const SequenceStep& step, const SampledTokens* sampled) {
  Sequence& sequence = scheduler_.at(step.slot);
  KVIST_CHECK(sequence.id == step.id, fmt::format("request {} left during its step", step.id.value()));
  sequence.steps_in_flight -= 1;
  sequence.computed = step.first + step.count;
  if (sampled != nullptr) {
    KVIST_CHECK(sampled->id == step.id && !sampled->tokens.empty() && sampled->tokens.size() <= step.drafts + 1,
                fmt::format("request {} was to sample 1 to {} tokens", step.id.value(), step.drafts + 1));
    if (step.drafts > 0) {
      // The positions of drafts that were not accepted are computed again.
      const auto computed = static_cast<std::uint32_t>(sampled->tokens.size());
      sequence.computed = sequence.planned = step.first + computed;
      sequence.speculating = false;
    }
    sequence.pending_samples -= 1;
    // The output of a request that has ended is dropped: it was planned before the end was known, or aborted.
    if (sequence.phase != Phase::kEnded) {
      if (sampled->drafted > 0) count_drafts(sampled->drafted, *sampled);
      take_samples(sequence, *sampled);
    }
  }
  kv_.commit_computed(sequence);
  if (sequence.phase != Phase::kRunning && sequence.steps_in_flight == 0) leave_batch(sequence);
}

void Core::Impl::count_drafts(std::uint32_t drafted, const SampledTokens& sampled) {
  const auto accepted = static_cast<std::uint32_t>(sampled.tokens.size()) - 1;
  ++counters_.drafts;
  counters_.draft_tokens += drafted;
  counters_.accepted_draft_tokens += accepted;
  // If the answer ended, it is unknown whether the drafts after its end would have been accepted.
  speculation_->on_verified(sampled.ends ? accepted : drafted, accepted);
}

void Core::Impl::take_samples(Sequence& sequence, const SampledTokens& sampled) {
  for (const TokenId token : sampled.tokens) sequence.tokens.push_back(token);
  counters_.generated_tokens += sampled.tokens.size();
  if (sampled.ends) {
    end(sequence, sampled.tokens, FinishReason::kStop);
  } else if (sequence.output_tokens() == sequence.output_limit) {
    end(sequence, sampled.tokens, FinishReason::kLength);
  } else {
    put_out(sequence, sampled.tokens, std::nullopt);
  }
}

// Adds the last output of a request. Its blocks and its slot are kept until its steps have ended (leave_batch()).
void Core::Impl::end(Sequence& sequence, const TokenRun& tokens, FinishReason reason) {
  put_out(sequence, tokens, reason);
  ++(reason == FinishReason::kAborted ? counters_.aborted : counters_.finished);
  // A waiting request has no steps under way and counts as waiting until it is removed.
  if (sequence.phase != Phase::kWaiting) sequence.phase = Phase::kEnded;
}

void Core::Impl::put_out(Sequence& sequence, const TokenRun& tokens, std::optional<FinishReason> finish) {
  RequestOutput& output = outputs_.emplace_back();
  output.id = sequence.id;
  output.finish = finish;
  output.prompt_tokens = sequence.prompt_tokens;
  output.cached_tokens = sequence.cached_tokens;
  output.output_tokens = sequence.output_tokens();
  output.tokens = tokens;
  if (sequence.untold_tokens == 0) return;
  output.run_tokens = std::exchange(sequence.untold_tokens, 0);
  const auto end = sequence.tokens.end() - static_cast<std::ptrdiff_t>(tokens.size());
  run_tokens_.insert(run_tokens_.end(), end - output.run_tokens, end);
}

// Called when no step computes the sequence any more: a preempted one goes back to the queue, any other is removed.
void Core::Impl::leave_batch(Sequence& sequence) {
  if (sequence.phase == Phase::kPreempted) return scheduler_.requeue(sequence);
  if (sequence.phase == Phase::kEnded) kv_.release(sequence);
  if (sequence.admitted) executor_->on_release(sequence.slot);
  scheduler_.remove(sequence);
}

// Blocks that are findable before they are computed are told of when a step has ended, as vLLM does.
void Core::Impl::take_outputs(StepOutputs& outputs) {
  take_all_but_events(outputs);
  if (options_.prefix_when_planned && !in_flight_.empty()) {
    outputs.events.clear();
  } else {
    kv_.pool().take_events(outputs.events);
  }
}

void Core::Impl::take_all_but_events(StepOutputs& outputs) {
  outputs.outputs.clear();
  outputs.logprobs.clear();
  outputs.admitted.clear();
  outputs.in_run = 0;
  outputs.joined_run.clear();
  if (run_) outputs.left_run = run_->take_left();
  outputs.run_tokens.clear();
  std::swap(outputs.run_tokens, run_tokens_);
  std::swap(outputs.outputs, outputs_);
  std::swap(outputs.admitted, admitted_);
}

void Core::Impl::set_max_num_tokens(std::uint32_t tokens) {
  options_.max_num_tokens = tokens;
  scheduler_.set_max_num_tokens(tokens);
}

bool Core::Impl::reset_prefix_cache() {
  if (scheduler_.running() > 0) return false;
  kv_.pool().clear_hashes();
  return true;
}

CoreStats Core::Impl::stats() const {
  CoreStats stats = counters_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.kv_blocks_total = kv_.pool().total_blocks();
  stats.kv_blocks_used = kv_.pool().used_blocks();
  stats.preemptions = scheduler_.preemptions();
  stats.prefill_backlog_tokens = scheduler_.prefill_backlog();
  stats.evictions = kv_.pool().counters().evictions;
  return stats;
}

Core::Core(CoreOptions options, Executor& executor, std::unique_ptr<SpeculationPolicy> speculation)
    : impl_(std::make_unique<Impl>(std::move(options), executor, std::move(speculation))) {}
Core::~Core() = default;

Result<void> Core::check(const Request& request, std::uint32_t also_waiting) const {
  return impl_->check(request, also_waiting);
}
Result<void> Core::submit(Request request) {
  KVIST_TRY_VOID(impl_->check(request, 0));
  impl_->enqueue(std::move(request));
  return {};
}
void Core::enqueue(Request request) {
  impl_->enqueue(std::move(request));
}
void Core::abort(RequestId id) {
  impl_->abort(id);
}
// The scheduler's decisions do not depend on time. Drivers pass it for policies that may need it.
bool Core::begin_step(TimePoint now, StepPlan& plan) {
  return impl_->begin_step(now, plan);
}
void Core::end_step(const StepPlan& plan, const StepResult& result, StepOutputs& outputs) {
  impl_->end_step(plan, result, outputs);
}
void Core::take_outputs(StepOutputs& outputs) {
  impl_->take_outputs(outputs);
}
void Core::set_max_num_tokens(std::uint32_t tokens) {
  impl_->set_max_num_tokens(tokens);
}
bool Core::reset_prefix_cache() {
  return impl_->reset_prefix_cache();
}
CoreStats Core::stats() const {
  return impl_->stats();
}
std::uint32_t Core::running() const {
  return impl_->scheduler().running();
}
std::uint32_t Core::waiting() const {
  return impl_->scheduler().waiting();
}
bool Core::idle() const {
  return impl_->idle();
}
void Core::look(CoreView& view) {
  impl_->look(view);
}
std::unordered_map<kv::BlockHash, std::uint32_t> Core::findable_blocks() const {
  return impl_->kv().pool().findable();
}

}  // namespace kvist::engine
