// The limits of an engine, and how they follow from a worker's settings.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/spec/deployment.h"

namespace kvist::engine {

/// Limits of one engine.
struct CoreOptions {
  std::string model;
  std::uint32_t block_size = 32;
  std::uint32_t kv_blocks = 1'024;
  std::uint32_t max_batch_size = 64;      ///< batch slots
  std::uint32_t max_num_tokens = 2'048;   ///< token budget of one step
  std::uint32_t max_model_len = 16'384;   ///< prompt and output of one request
  std::uint32_t max_waiting = 1'024;      ///< queued requests; beyond it submit() returns kResourceExhausted
  std::uint32_t max_steps_in_flight = 1;  ///< 1, or 2 for overlap scheduling (with drafts never more than 1)
  spec::AdmissionKind admission = spec::AdmissionKind::kReserveToCompletion;
  bool prefix_deferral = false;  ///< see spec::WorkerSpec
  bool block_tables = false;     ///< fill StepPlan::block_tables; with one step in flight only
};

/// The limits of a worker with any executor.
[[nodiscard]] CoreOptions core_options(const spec::WorkerSpec& worker);

}  // namespace kvist::engine
