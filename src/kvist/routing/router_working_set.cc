// What is computed again because the caches are smaller than what conversations come back for.
#include <algorithm>

#include "kvist/routing/router.h"

namespace kvist::routing {

WorkingSet& Router::open_working_set(TimePoint now) {
  working_set_.value().open(now, [this](auto visit) {
    requests_.for_each_handle(
        [&](RequestHandle, const RoutedRequest& request) { visit(request.worker, request.blocks); });
  });
  return *working_set_;
}

// What is cached now and will be evicted while the request waits is computed again as well.
void Router::note_recomputed(const Candidate& chosen, std::uint32_t known_blocks, std::uint32_t prompt_tokens) {
  const std::uint64_t known = std::min<std::uint64_t>(std::uint64_t{known_blocks} * block_size_, prompt_tokens);
  const std::uint64_t evicted = known - std::min<std::uint64_t>(known, chosen.cached_tokens);
  const std::uint64_t again = evicted + chosen.forecast.lost_tokens;
  if (again == 0) return;  // of a request that nobody could read there are no tokens at all
  const std::uint64_t all = prompt_tokens - chosen.cached_tokens + chosen.forecast.lost_tokens;
  recomputed_prefill_ms_ += chosen.forecast.prefill_ms * static_cast<double>(again) / static_cast<double>(all);
}

std::uint32_t Router::deepest_anywhere() const {
  std::uint32_t most = 0;
  for (const WorkerId worker : caches_.known()) most = std::max(most, depths_.blocks[worker.value()]);
  return counts_prompts_in_flight() ? most : std::max(most, std::ranges::max(shared_));
}

// A request that reads no cache computes what is there all the same: then nobody knows what was evicted.
void Router::note_insertion(const RouteQuery& query, const Candidate& chosen, std::span<const kv::BlockHash> prompt,
                            std::uint32_t known_blocks, const FleetView& fleet) {
  const GhostCache::Found found{.anywhere = std::max(known_blocks, deepest_anywhere()),
                                .there = chosen.cached_blocks,
                                .exact = chosen.trust == CacheTrust::kExact && query.reads_cache};
  ghosts_.on_routed(chosen.worker, prompt, found, fleet_blocks(fleet));
}

// A worker that only gets nothing for a while keeps its cache.
std::uint64_t Router::fleet_blocks(const FleetView& fleet) {
  if (fleet.is_still(fleet_blocks_version_)) return fleet_blocks_;
  fleet_blocks_ = 0;
  for (std::uint32_t i = 0; i < fleet.size(); ++i) {
    if (fleet[i].available || fleet[i].group != WorkerView::kOutOfUse) {
      fleet_blocks_ += in_blocks_of(block_size_, fleet[i].limits).kv_blocks;
    } else {
      ghosts_.clear(WorkerId(i));
    }
  }
  fleet_blocks_version_ = fleet.version();
  return fleet_blocks_;
}

}  // namespace kvist::routing
