#include "kvist/engine/core.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/engine/admission.h"
#include "kvist/engine/kv_manager.h"
#include "kvist/engine/scheduler.h"
#include "kvist/engine/sequence.h"

namespace kvist::engine {

class Core::Impl {
 public:
  Impl(CoreOptions options, Executor& executor)
      : options_(std::move(options)),
        executor_(&executor),
        kv_(options_.model, options_.kv_blocks, options_.block_size, std::make_unique<ReserveToCompletion>()),
        scheduler_({.max_batch_size = options_.max_batch_size, .max_num_tokens = options_.max_num_tokens}, kv_) {
    KVIST_CHECK(options_.block_size > 0 && options_.kv_blocks > 0, "an engine needs KV blocks");
    KVIST_CHECK(options_.max_batch_size > 0 && options_.max_num_tokens > 0, "an engine needs slots and a token budget");
    KVIST_CHECK(options_.max_steps_in_flight == 1 || options_.max_steps_in_flight == 2,
                fmt::format("max_steps_in_flight is {}, not 1 or 2", options_.max_steps_in_flight));
  }

  Result<void> submit(Request request);
  void abort(RequestId id);
  std::optional<StepPlan> begin_step();
  StepOutputs end_step(const StepPlan& plan, const StepResult& result);
  StepOutputs take_outputs();
  bool reset_prefix_cache();
  [[nodiscard]] CoreStats stats() const;
  [[nodiscard]] bool idle() const {
    return scheduler_.running() == 0 && scheduler_.waiting() == 0 && in_flight_.empty();
  }
  [[nodiscard]] const KvManager& kv() const { return kv_; }

 private:
  [[nodiscard]] std::uint32_t output_limit(const Request& request) const;
  [[nodiscard]] Result<void> check(const Request& request);
  void take_sample(Sequence& sequence, const SampledTokens& sampled);
  void end(Sequence& sequence, std::vector<TokenId> tokens, FinishReason reason);
  void put_out(const Sequence& sequence, std::vector<TokenId> tokens, std::optional<FinishReason> finish);
  void retire(Sequence& sequence);

  CoreOptions options_;
  Executor* executor_;
  KvManager kv_;
  Scheduler scheduler_;
  std::deque<StepId> in_flight_;                // oldest first
  std::vector<RequestOutput> outputs_;          // not yet taken
  std::vector<const Sequence*> just_admitted_;  // of one begin_step(); a member to keep its memory
  std::uint64_t last_step_ = 0;
  CoreStats counters_;  // only the cumulative ones of the core itself
};

std::uint32_t Core::Impl::output_limit(const Request& request) const {
  return std::min(request.max_tokens, options_.max_model_len - static_cast<std::uint32_t>(request.prompt.size()));
}

Result<void> Core::Impl::check(const Request& request) {
  if (request.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (request.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "max_tokens is 0, at least 1 is needed");
  if (request.prompt.size() >= options_.max_model_len) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the prompt has {} tokens; the context holds {} with at least one token of the answer",
                            request.prompt.size(), options_.max_model_len));
  }
  const std::uint64_t tokens = request.prompt.size() + output_limit(request) - 1;
  const std::uint64_t blocks = (tokens + options_.block_size - 1) / options_.block_size;
  if (blocks > options_.kv_blocks) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} prompt tokens and up to {} of the answer need {} KV blocks of {} tokens; there are {}",
                    request.prompt.size(), output_limit(request), blocks, options_.block_size, options_.kv_blocks));
  }
  if (scheduler_.find(request.id) != nullptr) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("request id {} is in use", request.id.value()));
  }
  if (scheduler_.waiting() >= options_.max_waiting) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} requests are waiting, the most allowed", options_.max_waiting));
  }
  return {};
}

Result<void> Core::Impl::submit(Request request) {
  KVIST_TRY_VOID(check(request));
  const std::uint32_t limit = output_limit(request);
  scheduler_.add(std::make_unique<Sequence>(std::move(request), limit, options_.block_size));
  return {};
}

void Core::Impl::abort(RequestId id) {
  Sequence* const sequence = scheduler_.find(id);
  if (sequence == nullptr || sequence->phase == Phase::kEnded) return;
  end(*sequence, {}, FinishReason::kAborted);
  if (sequence->steps_in_flight == 0) retire(*sequence);
}

std::optional<StepPlan> Core::Impl::begin_step() {
  if (in_flight_.size() >= options_.max_steps_in_flight) return std::nullopt;
  just_admitted_.clear();
  StepPlan plan = scheduler_.plan(StepId(last_step_ + 1), just_admitted_);
  for (const Sequence* sequence : just_admitted_) {
    counters_.prompt_tokens += sequence->prompt_tokens();
    counters_.prefix_query_tokens += sequence->prompt_tokens();
    counters_.prefix_hit_tokens += sequence->cached_tokens;
    executor_->on_admit(sequence->request);
  }
  if (plan.sequences.empty()) return std::nullopt;
  in_flight_.push_back(plan.id);
  ++last_step_;
  return plan;
}

StepOutputs Core::Impl::end_step(const StepPlan& plan, const StepResult& result) {
  KVIST_CHECK(!in_flight_.empty() && in_flight_.front() == plan.id,
              fmt::format("step {} ended out of order", plan.id.value()));
  in_flight_.pop_front();
  ++counters_.steps;
  counters_.prefilled_tokens += plan.load.prefill_tokens;
  std::size_t next_sample = 0;
  for (const SequenceStep& step : plan.sequences) {
    Sequence* const sequence = scheduler_.find(step.id);
    KVIST_CHECK(sequence != nullptr, fmt::format("request {} left during its step", step.id.value()));
    sequence->steps_in_flight -= 1;
    sequence->computed = step.first + step.count;
    if (step.samples) {
      KVIST_CHECK(next_sample < result.sampled.size(), "a sample is missing");
      take_sample(*sequence, result.sampled[next_sample++]);
    }
    kv_.commit_computed(*sequence);
    if (sequence->phase == Phase::kEnded && sequence->steps_in_flight == 0) retire(*sequence);
  }
  KVIST_CHECK(next_sample == result.sampled.size(), "samples of no sequence");
  return take_outputs();
}

void Core::Impl::take_sample(Sequence& sequence, const SampledTokens& sampled) {
  KVIST_CHECK(sampled.id == sequence.request.id && sampled.tokens.size() == 1,
              fmt::format("request {} was to sample one token", sequence.request.id.value()));
  sequence.pending_samples -= 1;
  if (sequence.phase == Phase::kEnded) return;  // planned before the end was known, or aborted
  sequence.tokens.push_back(sampled.tokens.front());
  ++counters_.generated_tokens;
  if (sampled.ends && !sequence.request.ignore_eos) {
    end(sequence, sampled.tokens, FinishReason::kStop);
  } else if (sequence.output_tokens() == sequence.output_limit) {
    end(sequence, sampled.tokens, FinishReason::kLength);
  } else {
    put_out(sequence, sampled.tokens, std::nullopt);
  }
}

// The last output of a request. Its blocks and its slot stay until its steps have ended: see retire().
void Core::Impl::end(Sequence& sequence, std::vector<TokenId> tokens, FinishReason reason) {
  put_out(sequence, std::move(tokens), reason);
  ++(reason == FinishReason::kAborted ? counters_.aborted : counters_.finished);
  // A request that never ran has nothing under way and no slot: it stays in the queue's books until it is removed.
  if (sequence.phase == Phase::kRunning) sequence.phase = Phase::kEnded;
}

void Core::Impl::put_out(const Sequence& sequence, std::vector<TokenId> tokens, std::optional<FinishReason> finish) {
  outputs_.push_back({.id = sequence.request.id,
                      .tokens = std::move(tokens),
                      .finish = finish,
                      .prompt_tokens = sequence.prompt_tokens(),
                      .cached_tokens = sequence.cached_tokens,
                      .output_tokens = sequence.output_tokens()});
}

void Core::Impl::retire(Sequence& sequence) {
  if (sequence.phase != Phase::kWaiting) {
    kv_.release(sequence);
    executor_->on_release(sequence.request.id);
  }
  scheduler_.remove(sequence);
}

StepOutputs Core::Impl::take_outputs() {
  return {.outputs = std::exchange(outputs_, {}), .events = kv_.pool().take_events()};
}

bool Core::Impl::reset_prefix_cache() {
  if (scheduler_.running() > 0) return false;
  kv_.pool().clear_names();
  return true;
}

CoreStats Core::Impl::stats() const {
  CoreStats stats = counters_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.kv_blocks_total = kv_.pool().total_blocks();
  stats.kv_blocks_used = kv_.pool().used_blocks();
  stats.evictions = kv_.pool().counters().evictions;
  return stats;
}

Core::Core(CoreOptions options, Executor& executor) : impl_(std::make_unique<Impl>(std::move(options), executor)) {}
Core::~Core() = default;

Result<void> Core::submit(Request request) {
  return impl_->submit(std::move(request));
}
void Core::abort(RequestId id) {
  impl_->abort(id);
}
// The scheduler's decisions do not depend on time yet; drivers pass it so that policies that do can come.
std::optional<StepPlan> Core::begin_step(TimePoint /*now*/) {
  return impl_->begin_step();
}
StepOutputs Core::end_step(const StepPlan& plan, const StepResult& result, TimePoint /*now*/) {
  return impl_->end_step(plan, result);
}
StepOutputs Core::take_outputs() {
  return impl_->take_outputs();
}
bool Core::reset_prefix_cache() {
  return impl_->reset_prefix_cache();
}
CoreStats Core::stats() const {
  return impl_->stats();
}
bool Core::idle() const {
  return impl_->idle();
}
std::unordered_map<kv::BlockHash, std::uint32_t> Core::findable_blocks() const {
  return impl_->kv().pool().findable();
}

}  // namespace kvist::engine
