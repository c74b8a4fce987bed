#include "kvist/routing/load_tracker.h"

#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {

void LoadTracker::add(RequestId request, WorkerId worker, std::uint64_t uncached_tokens, BlockKeys blocks) {
  WorkerLoad& load = loads_.at(worker.value());
  load.prompt_blocks += prompts_.add(worker, blocks);
  load.prefill_tokens += uncached_tokens;
  ++load.requests;
  const auto [booked, is_new] = requests_.try_emplace(request);
  KVIST_CHECK(is_new, "a request has one worker at a time");
  *booked = {.worker = worker, .prefill_tokens = uncached_tokens, .output_tokens = 0, .blocks = std::move(blocks)};
}

void LoadTracker::on_first_token(RequestId request) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  loads_[found->worker.value()].prefill_tokens -= std::exchange(found->prefill_tokens, 0);
}

void LoadTracker::on_progress(RequestId request, std::uint64_t tokens) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  found->output_tokens += tokens;
  loads_[found->worker.value()].output_tokens += tokens;
}

void LoadTracker::remove(RequestId request) {
  const Request* const gone = requests_.find(request);
  if (gone == nullptr) return;
  WorkerLoad& load = loads_[gone->worker.value()];
  load.prompt_blocks -= prompts_.remove(gone->worker, gone->blocks);
  load.prefill_tokens -= gone->prefill_tokens;
  load.output_tokens -= gone->output_tokens;
  --load.requests;
  requests_.erase(request);
}

}  // namespace kvist::routing
