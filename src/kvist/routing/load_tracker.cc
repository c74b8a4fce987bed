#include "kvist/routing/load_tracker.h"

#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {

void LoadTracker::add(RequestId request, WorkerId worker, std::uint64_t uncached_tokens, BlockKeys blocks) {
  Worker& state = workers_.at(worker.value());
  for (const kv::BlockHash block : view(blocks)) {
    if (++state.users[block] == 1) in_use_on_[block].insert(worker);
  }
  state.load.prompt_blocks = state.users.size();
  state.load.prefill_tokens += uncached_tokens;
  ++state.load.requests;
  const auto [booked, is_new] = requests_.try_emplace(request);
  KVIST_CHECK(is_new, "a request has one worker at a time");
  *booked = {.worker = worker, .prefill_tokens = uncached_tokens, .output_tokens = 0, .blocks = std::move(blocks)};
}

void LoadTracker::on_first_token(RequestId request) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  workers_[found->worker.value()].load.prefill_tokens -= std::exchange(found->prefill_tokens, 0);
}

void LoadTracker::on_progress(RequestId request, std::uint64_t tokens) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  found->output_tokens += tokens;
  workers_[found->worker.value()].load.output_tokens += tokens;
}

void LoadTracker::remove(RequestId request) {
  Request* const found = requests_.find(request);
  if (found == nullptr) return;
  const Request& gone = *found;
  Worker& state = workers_[gone.worker.value()];
  for (const kv::BlockHash block : view(gone.blocks)) {
    if (--*state.users.find(block) > 0) continue;
    state.users.erase(block);
    WorkerSet* const workers = in_use_on_.find(block);
    workers->erase(gone.worker);
    if (workers->empty()) in_use_on_.erase(block);
  }
  state.load.prompt_blocks = state.users.size();
  state.load.prefill_tokens -= gone.prefill_tokens;
  state.load.output_tokens -= gone.output_tokens;
  --state.load.requests;
  requests_.erase(request);
}

void LoadTracker::shared_blocks(std::span<const kv::BlockHash> blocks, std::span<std::uint32_t> depths) const {
  // A request uses every block before one it uses, so the blocks in use are a prefix of any prompt.
  prefix_depths(blocks, depths, [this](kv::BlockHash block) { return in_use_on_.find(block); });
}

}  // namespace kvist::routing
