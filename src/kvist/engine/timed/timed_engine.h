// From a worker's settings to a driven engine: the one place, for the live worker and for the simulation.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/engine/timed/engine_driver.h"
#include "kvist/spec/deployment.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::engine {

/// `tokenizer` must outlive the driver; `worker` is resolved (perfmodel::resolve). Errors: a model of time that cannot
/// be built.
[[nodiscard]] Result<std::unique_ptr<EngineDriver>> make_timed_engine(const spec::WorkerSpec& worker,
                                                                      const tokenizer::Tokenizer& tokenizer);

}  // namespace kvist::engine
