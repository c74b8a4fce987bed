// From a worker's settings to an engine that computes: the one place.
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
  spec::WorkerSpec worker;   ///< with what the model and the memory decided
  std::string memory_table;  ///< where the memory goes, for whoever starts the worker
};

/// Loads the model of `worker.cpu`, which must be set. The tokens in `end_tokens` end an answer, beside those that the
/// model's config names; ids from `vocabulary` on are never sampled. A model that cannot fit is refused before a weight
/// is read. Errors: settings that this engine cannot honour, and what is wrong with the model's files.
[[nodiscard]] Result<CpuEngine> make_cpu_engine(const spec::WorkerSpec& worker, std::vector<TokenId> end_tokens,
                                                std::uint32_t vocabulary);

}  // namespace kvist::engine::cpu
