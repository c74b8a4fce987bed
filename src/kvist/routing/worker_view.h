// The workers of the fleet as routing sees them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::routing {

/// The limits of an engine; 0 stands for unknown.
struct EngineLimits {
  std::uint32_t block_size = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t max_batch_size = 0;  ///< batch slots
  std::uint32_t max_num_tokens = 0;  ///< token budget of one step
  friend bool operator==(const EngineLimits&, const EngineLimits&) = default;
};

/// The limits in blocks of the router's size. Workers of another block size are routed to by prediction.
[[nodiscard]] inline EngineLimits in_blocks_of(std::uint32_t block_size, EngineLimits limits) {
  if (limits.block_size == 0 || limits.block_size == block_size) return limits;
  if (limits.kv_blocks != 0) {  // 0 would mean that they are not known
    const std::uint64_t blocks = std::uint64_t{limits.kv_blocks} * limits.block_size / block_size;
    limits.kv_blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, UINT32_MAX));
  }
  limits.block_size = block_size;
  return limits;
}

/// How well a worker's cache content is known.
enum class CacheTrust : std::uint8_t {
  kNone,       ///< not at all: no prediction came true
  kPredicted,  ///< from the prompts that were routed there, which may have been evicted since
  kExact,      ///< from its KV events, of which none is missing
};
[[nodiscard]] constexpr std::string_view to_string(CacheTrust trust) {
  switch (trust) {
    case CacheTrust::kNone:
      return "none";
    case CacheTrust::kPredicted:
      return "predicted";
    case CacheTrust::kExact:
      return "exact";
  }
  return "none";
}

/// One worker of the fleet, at the index of its id. The owner of the fleet keeps it up to date.
struct WorkerView {
  static constexpr std::uint8_t kOutOfUse = 255;

  bool vacant = false;        ///< there is no worker of this id at present
  bool available = false;     ///< may be given requests
  bool events_exact = false;  ///< its KV event stream is connected, whole and readable
  std::uint8_t reading = 0;   ///< which tokenization of a text the worker uses (PromptKeys::reading)
  EngineLimits limits = {};
  std::uint32_t max_model_len = 0;  ///< prompt and output tokens of one request at most; 0: unknown
  /// How good a choice it is by its health, 0 the best; kOutOfUse: it gets nothing. The workers of the lowest group
  /// that is not empty are available. A request that only some workers can take goes to the lowest group that has one
  /// of these.
  std::uint8_t group = kOutOfUse;
  /// How many of its requests may wait for their first token while it is new; 0: any number. Mode kv heeds this as long
  /// as another worker can take the request.
  std::uint32_t most_waiting = 0;
  std::vector<std::string> adapters = {};  ///< of the model (LoRA), sorted: requests for them can only go to it

  /// Whether it has the adapter; every worker has the model itself, which is meant by an empty name.
  [[nodiscard]] bool has_adapter(std::string_view name) const {
    return name.empty() || std::ranges::binary_search(adapters, name);
  }
};

/// The lowest group that a worker with the adapter is in: a request for it goes to the workers of this group that have
/// it. kOutOfUse: none can take it. Without an adapter (an empty name) these are the available ones.
[[nodiscard]] inline std::uint8_t best_group(std::span<const WorkerView> fleet, std::string_view adapter) {
  std::uint8_t best = WorkerView::kOutOfUse;
  for (const WorkerView& worker : fleet)
    if (worker.has_adapter(adapter)) best = std::min(best, worker.group);
  return best;
}

}  // namespace kvist::routing
