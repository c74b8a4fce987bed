// Builds the engine that computes from a worker's settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/engine/driver.h"
#include "kvist/spec/deployment.h"

namespace kvist::engine::cpu {

struct CpuEngine {
  std::unique_ptr<Driver> driver;
  spec::WorkerSpec worker;   ///< completed from the model and the memory budget
  std::string memory_table;  ///< use of the memory, printed at start-up
  /// Of the model: it has no embedding of ids from here on, so no prompt may contain them. A tokenizer may have more,
  /// of tokens that were added without training.
  std::uint32_t vocabulary = 0;
};

/// Loads the model of `worker.cpu`. The tokens in `end_tokens` end an answer, beside those that the model's config
/// names; ids from `vocabulary` on are never sampled. A model that cannot fit is refused before a weight is read.
/// Requires: worker.cpu is set. Errors: settings that this engine does not support; model files that are missing or
/// invalid.
[[nodiscard]] Result<CpuEngine> make_cpu_engine(const spec::WorkerSpec& worker, std::vector<TokenId> end_tokens,
                                                std::uint32_t vocabulary);

}  // namespace kvist::engine::cpu
