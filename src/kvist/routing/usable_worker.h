// A worker that may take a request, before it is a candidate with a forecast.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/base/id.h"

namespace kvist::routing {

/// What the request would find there, in little memory.
struct UsableWorker {
  WorkerId worker;
  std::uint32_t prompt_tokens = 0;     ///< in the worker's own tokenization
  std::uint32_t cached_tokens = 0;     ///< as Candidate::cached_tokens
  std::uint32_t replicate_tokens = 0;  ///< as Candidate::replicate_tokens

  /// KvPolicy::Terms::paid of a prompt of so many tokens (PolicyQuery::prompt_tokens).
  [[nodiscard]] double paid(std::uint32_t tokens) const {
    if (replicate_tokens == 0) return 1;
    const double computed = tokens - cached_tokens;
    return computed > 0 ? 1 - std::min<double>(replicate_tokens, computed) / computed : 0;
  }
};

}  // namespace kvist::routing
