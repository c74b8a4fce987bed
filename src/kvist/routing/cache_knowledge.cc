#include "kvist/routing/cache_knowledge.h"

#include <utility>

namespace kvist::routing {

CacheKnowledge::CacheKnowledge(Options options)
    : index_({.model = std::move(options.model), .block_size = options.block_size}), scratch_(options.workers) {}

void CacheKnowledge::match(std::span<const kv::BlockHash> prompt, std::span<const WorkerView> fleet,
                           std::span<CacheDepth> depths) {
  index_.match(prompt, scratch_);
  for (std::size_t i = 0; i < depths.size(); ++i) {
    depths[i] = {.blocks = scratch_[i], .trust = fleet[i].events_exact ? CacheTrust::kExact : CacheTrust::kNone};
  }
}

}  // namespace kvist::routing
