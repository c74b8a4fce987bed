// A worker that may take a request, before it is a candidate with a forecast.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"

namespace kvist::routing {

/// What the request would find there, in little memory.
struct UsableWorker {
  WorkerId worker;
  std::uint32_t prompt_tokens = 0;     ///< in the worker's own tokenization
  std::uint32_t cached_tokens = 0;     ///< as Candidate::cached_tokens
  std::uint32_t replicate_tokens = 0;  ///< as Candidate::replicate_tokens
  std::uint64_t displaced_blocks = 0;  ///< ForecastQuery::displaced_blocks
  double affinity_ms = 0;              ///< Candidate::affinity_ms
};

}  // namespace kvist::routing
