#include "kvist/engine/cpu/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kvist/engine/cpu/kv_cache.h"
#include "kvist/engine/cpu/llama_model.h"

namespace kvist::engine::cpu {
namespace {

/// "1.50 GiB", "12.0 KiB".
std::string size_text(std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  if (bytes >= 1U << 30) return fmt::format("{:.2f} GiB", n / (1U << 30));
  if (bytes >= 1U << 20) return fmt::format("{:.1f} MiB", n / (1U << 20));
  return fmt::format("{:.1f} KiB", n / (1U << 10));
}

std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

}  // namespace

std::uint64_t MemoryBudget::sequences(std::uint64_t tokens_each) const {
  const std::uint64_t each = blocks_for(tokens_each, block_size);
  return each == 0 ? 0 : blocks / each;
}

Result<MemoryBudget> divide_memory(const LlamaConfig& config, const MemoryRequest& request) {
  if (!KvCache::supports(request.block_size)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("KV blocks of {} tokens: the CPU engine has blocks of 16, 32, 64 or 128", request.block_size));
  }
  MemoryBudget budget;
  budget.budget_bytes = request.budget_bytes;
  budget.weights = request.weights;
  budget.kv = request.kv;
  budget.limits = request.limits;
  budget.block_size = request.block_size;
  budget.max_sequence_tokens = request.max_sequence_tokens == 0 ? config.max_positions : request.max_sequence_tokens;
  budget.weight_bytes = LlamaModel::bytes_for(config, request.weights);
  budget.activation_bytes = ForwardPass::bytes_for(config, request.limits, request.threads);
  budget.block_bytes = KvCache::bytes_per_block(config, request.block_size, request.kv);
  const std::uint64_t fixed = budget.weight_bytes + budget.activation_bytes;
  const std::uint64_t least = blocks_for(budget.max_sequence_tokens, request.block_size);
  if (fixed + least * budget.block_bytes > request.budget_bytes) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("the model does not fit into {}: {} of weights ({}), {} of activations and {} of KV blocks "
                            "for one sequence of {} tokens need {}; give it more memory or shorter sequences",
                            size_text(request.budget_bytes), size_text(budget.weight_bytes), to_string(request.weights),
                            size_text(budget.activation_bytes), size_text(least * budget.block_bytes),
                            budget.max_sequence_tokens, size_text(fixed + least * budget.block_bytes)));
  }
  budget.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      (request.budget_bytes - fixed) / budget.block_bytes, std::numeric_limits<std::int32_t>::max()));
  return budget;
}

std::string memory_table(const MemoryBudget& budget) {
  std::string out;
  const auto line = [&](std::string_view name, std::uint64_t bytes, std::string_view what) {
    out += fmt::format("{:<12} {:>10}  {}\n", name, size_text(bytes), what);
  };
  line("weights", budget.weight_bytes, fmt::format("packed as {}", to_string(budget.weights)));
  line("activations", budget.activation_bytes,
       fmt::format("of a step of {} tokens, {} of them with logits", budget.limits.rows, budget.limits.logit_rows));
  line("KV blocks", budget.kv_bytes(),
       fmt::format("{} blocks of {} tokens in {}, {} each", budget.blocks, budget.block_size, to_string(budget.kv),
                   size_text(budget.block_bytes)));
  line("total", budget.weight_bytes + budget.activation_bytes + budget.kv_bytes(),
       fmt::format("of a budget of {}", size_text(budget.budget_bytes)));
  out += "sequences that fit at once:";
  std::string_view between = " ";
  const std::uint64_t longest = budget.max_sequence_tokens;
  for (std::uint64_t tokens = 256;; tokens *= 4) {
    const std::uint64_t length = std::min(tokens, longest);
    out += fmt::format("{}{} of {} tokens", between, budget.sequences(length), length);
    between = ", ";
    if (length == longest) break;
  }
  return out + "\n";
}

}  // namespace kvist::engine::cpu
