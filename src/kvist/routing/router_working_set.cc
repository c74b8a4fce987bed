// What is computed again because the caches are smaller than what conversations come back for.
#include <algorithm>

#include "kvist/routing/router.h"

namespace kvist::routing {

void Router::note_recomputed(const Candidate& chosen, std::uint32_t known_blocks, std::uint32_t prompt_tokens) {
  const std::uint64_t known = std::min<std::uint64_t>(std::uint64_t{known_blocks} * block_size_, prompt_tokens);
  if (known <= chosen.cached_tokens) return;
  const auto lost = static_cast<double>(known - chosen.cached_tokens);
  recomputed_prefill_ms_ += chosen.forecast.prefill_ms * lost / (prompt_tokens - chosen.cached_tokens);
}

}  // namespace kvist::routing
