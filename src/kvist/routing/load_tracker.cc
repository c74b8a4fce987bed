#include "kvist/routing/load_tracker.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {

void LoadTracker::add(RequestId request, WorkerId worker, std::uint64_t uncached_tokens, BlockKeys blocks) {
  Worker& state = workers_.at(worker.value());
  for (const kv::BlockHash block : view(blocks)) ++state.users[block];
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
    if (--*state.users.find(block) == 0) state.users.erase(block);
  }
  state.load.prompt_blocks = state.users.size();
  state.load.prefill_tokens -= gone.prefill_tokens;
  state.load.output_tokens -= gone.output_tokens;
  --state.load.requests;
  requests_.erase(request);
}

std::size_t LoadTracker::shared_blocks(WorkerId worker, std::span<const kv::BlockHash> blocks) const {
  // A request uses every block before one it uses, so the blocks in use are a prefix of any prompt.
  const auto& users = workers_.at(worker.value()).users;
  const auto end = std::ranges::partition_point(blocks, [&](kv::BlockHash block) { return users.contains(block); });
  return static_cast<std::size_t>(end - blocks.begin());
}

}  // namespace kvist::routing
