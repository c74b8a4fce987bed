#include "kvist/routing/load_tracker.h"

#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {

void LoadTracker::add(RequestId request, WorkerId worker, RequestLoad asked) {
  WorkerLoad& load = loads_.at(worker.value());
  load.prompt_blocks += prompts_.add(worker, asked.blocks);
  load.prefill_tokens += asked.uncached_tokens;
  ++load.requests;
  progress_[worker.value()].add(0);
  const auto [booked, is_new] = requests_.try_emplace(request);
  KVIST_CHECK(is_new, "a request has one worker at a time");
  *booked = {.worker = worker, .asked = std::move(asked)};
}

void LoadTracker::on_first_token(RequestId request) {
  Request* const found = requests_.find(request);
  if (found == nullptr || found->decoding) return;
  found->decoding = true;
  WorkerLoad& load = loads_[found->worker.value()];
  load.prefill_tokens -= found->asked.uncached_tokens;
  load.context_tokens += found->asked.prompt_tokens + found->output_tokens;
  ++load.decoding;
}

void LoadTracker::on_progress(RequestId request, std::uint64_t tokens) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  WorkerLoad& load = loads_[found->worker.value()];
  progress_[found->worker.value()].advance(found->output_tokens, found->output_tokens + tokens);
  found->output_tokens += tokens;
  load.output_tokens += tokens;
  if (found->decoding) load.context_tokens += tokens;
}

void LoadTracker::remove(RequestId request) {
  const Request* const gone = requests_.find(request);
  if (gone == nullptr) return;
  WorkerLoad& load = loads_[gone->worker.value()];
  load.prompt_blocks -= prompts_.remove(gone->worker, gone->asked.blocks);
  if (gone->decoding) {
    --load.decoding;
    load.context_tokens -= gone->asked.prompt_tokens + gone->output_tokens;
  } else {
    load.prefill_tokens -= gone->asked.uncached_tokens;
  }
  load.output_tokens -= gone->output_tokens;
  --load.requests;
  progress_[gone->worker.value()].remove(gone->output_tokens);
  requests_.erase(request);
}

}  // namespace kvist::routing
