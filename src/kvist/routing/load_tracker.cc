#include "kvist/routing/load_tracker.h"

namespace kvist::routing {
namespace {

// Another gateway's, of which only the number of blocks is known.
bool is_counted_only(const RoutedRequest& request) {
  return request.of_peer && request.blocks == nullptr;
}

}  // namespace

void LoadTracker::add(const RoutedRequest& request) {
  WorkerLoad& load = loads_.at(request.worker.value());
  load.prompt_blocks +=
      is_counted_only(request) ? request.new_blocks : prompts_.add_waiting(request.worker, request.blocks);
  load.prefill_tokens += request.uncached_tokens;
  own_blocks_[request.worker.value()] += request.own_blocks;
  ++load.requests;
  ++waiting_;
  further_choices_[request.worker.value()] += request.choices - 1;
  progress_[request.worker.value()].add(0, request.choices);
  ++requests_;
}

void LoadTracker::on_first_token(RoutedRequest& request) {
  if (request.assumed) --assumed_[request.worker.value()];
  request.assumed = false;
  if (request.decoding) return;
  request.decoding = true;
  end_wait(request);
  WorkerLoad& load = loads_[request.worker.value()];
  load.prefill_tokens -= request.uncached_tokens;
  load.context_tokens += request.prompt_tokens + request.output_tokens;
  ++load.decoding;
}

void LoadTracker::assume_first_token(RoutedRequest& request) {
  if (request.decoding) return;
  on_first_token(request);
  request.assumed = true;
  ++assumed_[request.worker.value()];
}

void LoadTracker::on_progress(RoutedRequest& request, std::uint64_t tokens) {
  WorkerLoad& load = loads_[request.worker.value()];
  const std::uint64_t before = request.answer_tokens();
  request.output_tokens += tokens;
  progress_[request.worker.value()].advance(before, request.answer_tokens(), request.choices);
  load.output_tokens += tokens;
  if (request.decoding) load.context_tokens += tokens;
}

void LoadTracker::on_run_step(WorkerId worker, std::uint64_t requests) {
  WorkerLoad& load = loads_[worker.value()];
  load.output_tokens += requests;
  load.context_tokens += requests;
}

void LoadTracker::end_wait(const RoutedRequest& request) {
  --waiting_;
  if (!is_counted_only(request)) prompts_.end_wait(request.blocks);
}

void LoadTracker::remove(const RoutedRequest& request) {
  WorkerLoad& load = loads_[request.worker.value()];
  if (!request.decoding) end_wait(request);
  load.prompt_blocks -= is_counted_only(request) ? request.new_blocks : prompts_.remove(request.worker, request.blocks);
  if (request.assumed) --assumed_[request.worker.value()];
  if (request.decoding) {
    --load.decoding;
    load.context_tokens -= request.prompt_tokens + request.output_tokens;
  } else {
    load.prefill_tokens -= request.uncached_tokens;
  }
  load.output_tokens -= request.output_tokens;
  own_blocks_[request.worker.value()] -= request.own_blocks;
  --load.requests;
  further_choices_[request.worker.value()] -= request.choices - 1;
  progress_[request.worker.value()].remove(request.answer_tokens(), request.choices);
  --requests_;
}

}  // namespace kvist::routing
