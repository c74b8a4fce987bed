#include "kvist/engine/cpu/cpu_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/checkpoint.h"
#include "kvist/engine/cpu/device_driver.h"
#include "kvist/engine/cpu/forward_pass.h"
#include "kvist/engine/cpu/llama_executor.h"
#include "kvist/engine/cpu/measured_draft_length.h"
#include "kvist/engine/cpu/memory_budget.h"

namespace kvist::engine::cpu {
namespace {

constexpr std::string_view kDrafter = "prompt_lookup";

/// The parts of the engine, in the order of construction.
struct Parts {
  Parts(LlamaModel its_model, std::unique_ptr<ThreadPool> its_pool, const MemoryBudget& memory)
      : model(std::move(its_model)),
        pool(std::move(its_pool)),
        cache(model.config(), memory.blocks, memory.block_size, memory.kv),
        forward(model, cache, *pool, memory.limits) {}

  LlamaModel model;
  std::unique_ptr<ThreadPool> pool;
  KvCache cache;
  ForwardPass forward;
};

Result<void> check_settings(const spec::WorkerSpec& worker) {
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("worker {}: {}", worker.name, what));
  };
  if (worker.max_steps_in_flight != 1) return wrong("max_steps_in_flight: the cpu engine computes one step at a time");
  if (worker.speculation.enabled && worker.speculation.drafter != kDrafter) {
    return wrong(fmt::format("speculation.drafter: the cpu engine drafts by \"{}\", not by \"{}\"", kDrafter,
                             worker.speculation.drafter));
  }
  return {};
}

DataType packed_type(spec::WeightType wanted, DataType stored) {
  switch (wanted) {
    case spec::WeightType::kAsStored:
      return stored;
    case spec::WeightType::kBf16:
      return DataType::kBf16;
    case spec::WeightType::kF32:
      return DataType::kF32;
  }
  return stored;
}

KvType kv_type(spec::CpuKvType wanted, DataType weights) {
  switch (wanted) {
    case spec::CpuKvType::kAsWeights:
      return weights == DataType::kF32 ? KvType::kF32 : KvType::kBf16;
    case spec::CpuKvType::kBf16:
      return KvType::kBf16;
    case spec::CpuKvType::kF16:
      return KvType::kF16;
    case spec::CpuKvType::kF32:
      return KvType::kF32;
  }
  return KvType::kBf16;
}

// Fills in the settings that the file left open, from the model's context length and the memory budget.
Result<MemoryBudget> divide(spec::WorkerSpec& worker, const LlamaConfig& config, const MemoryRequest& request) {
  if (worker.open.max_model_len) worker.max_model_len = config.max_positions;
  if (worker.max_model_len > config.max_positions) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("worker {}: max_model_len is {}, the model's context is {}",
                                                         worker.name, worker.max_model_len, config.max_positions));
  }
  MemoryRequest asked = request;
  asked.max_sequence_tokens = worker.open.max_model_len ? worker.block_size : worker.max_model_len;
  KVIST_TRY(MemoryBudget memory, divide_memory(config, asked));
  if (!worker.open.kv_blocks) {
    if (worker.kv_blocks > memory.blocks) {
      return fail(
          ErrorCode::kResourceExhausted,
          fmt::format("worker {}: kv_blocks is {}, but beside weights and activations the memory of {} MiB holds "
                      "{}",
                      worker.name, worker.kv_blocks, request.budget_bytes >> 20U, memory.blocks));
    }
    memory.blocks = worker.kv_blocks;
  }
  worker.kv_blocks = memory.blocks;
  // A single request must fit.
  worker.max_model_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(worker.max_model_len, memory.kv_tokens()));
  if (worker.open.prefix_deferral) worker.prefix_deferral = true;
  memory.max_sequence_tokens = worker.max_model_len;
  worker.open = {};
  return memory;
}

std::unique_ptr<SpeculationPolicy> make_drafting(const spec::SpeculationSpec& spec,
                                                 DeviceDriver::StepObserver& observer) {
  if (!spec.enabled) return nullptr;
  if (spec.draft_length == spec::DraftLength::kFixed) return std::make_unique<FixedDraftLength>(spec.draft_tokens);
  auto measured = std::make_unique<MeasuredDraftLength>(spec.draft_tokens);
  observer = [policy = measured.get()](const StepPlan& plan, const StepResult& result, Duration took) {
    std::uint64_t rows = plan.load.prefill_tokens + plan.load.decode_sequences;
    for (const SampledTokens& sampled : result.sampled) rows += sampled.drafted;
    policy->on_step(rows, took);
  };
  return measured;
}

/// A step writes into the blocks that its plan names, and reads what others have written.
CoreOptions computing_options(const spec::WorkerSpec& worker) {
  CoreOptions options = core_options(worker);
  options.max_steps_in_flight = 1;
  options.block_tables = true;
  options.compares_tokens = true;
  return options;
}

}  // namespace

Result<CpuEngine> make_cpu_engine(const spec::WorkerSpec& wanted, std::vector<TokenId> end_tokens,
                                  std::uint32_t vocabulary) {
  KVIST_CHECK(wanted.cpu.has_value(), "a cpu engine without its settings");
  CpuEngine engine{.driver = nullptr, .worker = wanted, .memory_table = {}, .vocabulary = 0};
  spec::WorkerSpec& worker = engine.worker;
  KVIST_TRY_VOID(check_settings(worker));
  const std::uint32_t drafts = worker.speculation.enabled ? worker.speculation.draft_tokens : 0;
  const unsigned threads =
      worker.cpu->threads > 0 ? worker.cpu->threads : std::max(1U, std::thread::hardware_concurrency());

  KVIST_TRY(const LlamaConfig config, load_llama_config(worker.cpu->model));
  KVIST_TRY(const Checkpoint checkpoint, Checkpoint::open(worker.cpu->model));
  KVIST_TRY(const DataType stored, default_weight_type(checkpoint, config));
  const DataType type = packed_type(worker.cpu->weights, stored);
  const ForwardLimits limits{
      .rows = worker.max_num_tokens,
      .logit_rows = LlamaExecutor::most_logit_rows(worker.max_batch_size, drafts, worker.max_num_tokens)};
  KVIST_TRY(const MemoryBudget memory, divide(worker, config,
                                              {.budget_bytes = worker.cpu->memory_bytes,
                                               .weights = type,
                                               .kv = kv_type(worker.cpu->kv_dtype, type),
                                               .block_size = worker.block_size,
                                               .limits = limits,
                                               .threads = threads}));
  engine.memory_table = memory_table(memory);
  engine.vocabulary = config.vocabulary;

  auto pool = std::make_unique<ThreadPool>(threads);
  KVIST_TRY(LlamaModel model, LlamaModel::load(checkpoint, config, type, *pool));
  const auto parts = std::make_shared<Parts>(std::move(model), std::move(pool), memory);
  for (const std::uint32_t token : config.end_tokens) end_tokens.emplace_back(token);
  auto executor =
      std::make_unique<LlamaExecutor>(std::shared_ptr<ForwardPass>(parts, &parts->forward),
                                      LlamaExecutor::Options{.max_batch_size = worker.max_batch_size,
                                                             .end_tokens = std::move(end_tokens),
                                                             .vocabulary = std::min(config.vocabulary, vocabulary),
                                                             .max_logit_rows = limits.logit_rows,
                                                             .drafts = worker.speculation.enabled});
  DeviceDriver::StepObserver observer;
  std::unique_ptr<SpeculationPolicy> drafting = make_drafting(worker.speculation, observer);
  engine.driver = std::make_unique<DeviceDriver>(computing_options(worker), std::move(executor), std::move(drafting),
                                                 std::move(observer));
  return engine;
}

}  // namespace kvist::engine::cpu
