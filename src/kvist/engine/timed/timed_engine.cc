#include "kvist/engine/timed/timed_engine.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kvist/engine/speculation.h"
#include "kvist/engine/timed/timed_executor.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::engine {
namespace {

/// A duration of the model on a clock that runs `scale` times faster.
Duration scaled(Duration modelled, double scale) {
  return Duration(std::llround(static_cast<double>(modelled.count()) / scale));
}

}  // namespace

Result<std::unique_ptr<EngineDriver>> make_timed_engine(const spec::WorkerSpec& worker,
                                                        const tokenizer::Tokenizer& tokenizer,
                                                        const TimedEngineOptions& options) {
  if (worker.cpu) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("worker {} computes its model: that is no timed engine", worker.name));
  }
  KVIST_TRY(const perfmodel::StepTimeModel step_time, perfmodel::StepTimeModel::of(worker));
  EngineDriver::Options driver;
  driver.intake_delay = [step_time, scale = worker.time_scale](perfmodel::IntakeLoad load) {
    load.last_decode_step = scaled(load.last_decode_step, 1 / scale);
    return scaled(step_time.intake_delay(load), scale);
  };
  driver.speculation = make_speculation_policy(worker.speculation, step_time);
  TimedExecutor::Options executor{.step_time = step_time,
                                  .output_length = worker.output_length,
                                  .time_scale = worker.time_scale,
                                  .acceptance = worker.speculation.acceptance};
  CoreOptions core = core_options(worker);
  core.decode_runs = options.decode_runs;
  core.tells_tokens = options.tells_tokens;
  return std::make_unique<EngineDriver>(
      std::move(core), std::make_unique<TimedExecutor>(std::move(executor), tokenizer), std::move(driver));
}

}  // namespace kvist::engine
