// Makes a timed engine from a worker's settings, for the worker service and for the simulation.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/engine/timed/engine_driver.h"
#include "kvist/spec/deployment.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::engine {

/// What those who listen to a timed engine can do without; see CoreOptions.
struct TimedEngineOptions {
  bool decode_runs = false;
  bool tells_tokens = true;
};

/// Requires: `tokenizer` outlives the driver; `worker` is resolved (perfmodel::resolve). Errors: a step-time model that
/// cannot be built.
[[nodiscard]] Result<std::unique_ptr<EngineDriver>> make_timed_engine(const spec::WorkerSpec& worker,
                                                                      const tokenizer::Tokenizer& tokenizer,
                                                                      const TimedEngineOptions& options = {});

}  // namespace kvist::engine
