#include "kvist/perfmodel/memory_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kvist/perfmodel/gpu_combination.h"

namespace kvist::perfmodel {
namespace {

constexpr double kActivationBytes = 2;  // BF16
constexpr double kInnerBuffers = 3;     // gate, up, their product
constexpr double kOuterBuffers = 3;     // residual, normalised input, output
constexpr double kFractionStep = 0.05;  // the usual step of this setting, also in the published plan
constexpr double kMaxBlocks = 100'000'000;
constexpr double kGb = 1e9;

/// The bytes of one token in flight on each GPU. The feed-forward part is split between GPUs, the residual stream is
/// not.
double activation_bytes_per_token(const ModelFacts& model, double gpus) {
  return kActivationBytes * (kInnerBuffers * model.intermediate_size / gpus + kOuterBuffers * model.hidden_size);
}

MemoryPlan plan_of(const GpuCombination& c, const spec::WorkerSpec& worker) {
  const EngineBehaviour& engine = c.engine.behaviour();
  const spec::ProfileSpec& profile = *worker.profile;
  MemoryPlan p;
  p.total_bytes = c.gpu->memory_bytes;
  p.fraction = profile.memory_fraction > 0 ? profile.memory_fraction : engine.memory_fraction;
  p.meaning = profile.memory_meaning == spec::MemoryMeaning::kEngine ? engine.memory_meaning : profile.memory_meaning;
  p.weight_bytes = c.model->weight_bytes / c.tensor_parallel;
  p.kv_bytes_per_token = c.model->kv_bytes_per_token(c.kv_dtype) / c.tensor_parallel;
  double per_token = activation_bytes_per_token(*c.model, c.tensor_parallel);
  if (c.drafter != nullptr) {
    p.drafter_weight_bytes = c.drafter->weight_bytes / c.tensor_parallel;
    p.drafter_kv_bytes_per_token = c.drafter->kv_bytes_per_token(c.kv_dtype) / c.tensor_parallel;
    // The two models run one after the other and use the same buffers, so the larger one counts.
    per_token = std::max(per_token, activation_bytes_per_token(*c.drafter, c.tensor_parallel));
  }
  p.context_bytes = c.value("memory.context");
  p.activation_bytes = per_token * worker.max_num_tokens * c.value("memory.activations");
  p.activation_peak_bytes = p.activation_bytes * c.value("memory.activation_peak", 1);
  const double taken = p.weight_bytes + p.drafter_weight_bytes + p.context_bytes + p.activation_bytes;
  const double left = p.meaning == spec::MemoryMeaning::kOfTotal ? p.fraction * p.total_bytes - taken
                                                                 : p.fraction * (p.total_bytes - taken);
  p.block_size = worker.block_size;
  p.kv_bytes = std::max(0.0, left);
  const double blocks = std::floor(p.kv_bytes / ((p.kv_bytes_per_token + p.drafter_kv_bytes_per_token) * p.block_size));
  p.kv_blocks = static_cast<std::uint32_t>(std::min(blocks, kMaxBlocks));
  return p;
}

std::string parts_text(const MemoryPlan& p) {
  std::string text = fmt::format("weights {:.1f} GB", p.weight_bytes / kGb);
  if (p.drafter_weight_bytes > 0) text += fmt::format(", drafter {:.1f} GB", p.drafter_weight_bytes / kGb);
  return text + fmt::format(", context {:.1f} GB, activations {:.1f} GB", p.context_bytes / kGb,
                            p.activation_peak_bytes / kGb);
}

}  // namespace

double MemoryPlan::peak_bytes() const {
  return weight_bytes + drafter_weight_bytes + context_bytes + activation_peak_bytes + kv_bytes;
}

bool MemoryPlan::fits() const {
  return kv_blocks > 0 && peak_bytes() <= total_bytes;
}

std::uint64_t MemoryPlan::sequences(std::uint64_t tokens_each) const {
  const std::uint64_t blocks_each = (tokens_each + block_size - 1) / block_size;
  return blocks_each == 0 ? 0 : kv_blocks / blocks_each;
}

Result<MemoryPlan> make_memory_plan(const spec::WorkerSpec& worker) {
  KVIST_TRY(const GpuCombination combination, GpuCombination::of(worker));
  return plan_of(combination, worker);
}

Result<std::optional<double>> smaller_fraction_that_fits(const spec::WorkerSpec& worker, const MemoryPlan& plan) {
  KVIST_TRY(const GpuCombination combination, GpuCombination::of(worker));
  // Counted in whole steps, so that 0.85 - 0.05 is exactly the 0.80 that users write.
  auto steps = static_cast<int>(std::ceil(plan.fraction / kFractionStep - 1e-9)) - 1;
  for (; steps > 0; --steps) {
    spec::WorkerSpec smaller = worker;
    smaller.profile->memory_fraction = steps / std::round(1 / kFractionStep);
    if (plan_of(combination, smaller).fits()) return smaller.profile->memory_fraction;
  }
  return std::nullopt;
}

Result<void> check_memory(const spec::WorkerSpec& worker, const MemoryPlan& plan) {
  if (plan.fits()) return {};
  const spec::ProfileSpec& profile = *worker.profile;
  const std::string where = fmt::format("{} on {} ({} GPU{})", profile.model, profile.gpu, profile.tensor_parallel,
                                        profile.tensor_parallel > 1 ? "s" : "");
  if (plan.kv_blocks == 0) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: nothing is left for KV blocks: {} of {:.1f} GB with a memory fraction of {:.2f}: a "
                            "larger fraction, more GPUs per worker or a smaller max_num_tokens is needed",
                            where, parts_text(plan), plan.total_bytes / kGb, plan.fraction));
  }
  KVIST_TRY(const auto fraction, smaller_fraction_that_fits(worker, plan));
  const std::string advice =
      fraction
          ? fmt::format("a memory fraction of {:.2f} fits", *fraction)
          : std::string("no smaller memory fraction fits: more GPUs per worker or a smaller max_num_tokens is needed");
  return fail(
      ErrorCode::kResourceExhausted,
      fmt::format("{} would run out of memory: {}, KV {:.1f} GB at a memory fraction of {:.2f} come to {:.1f} GB "
                  "of {:.1f} GB; {}",
                  where, parts_text(plan), plan.kv_bytes / kGb, plan.fraction, plan.peak_bytes() / kGb,
                  plan.total_bytes / kGb, advice));
}

}  // namespace kvist::perfmodel
