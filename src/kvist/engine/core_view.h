// What is in an engine at one instant, for those who roll it forward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/engine/request.h"
#include "kvist/engine/step.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// One request in the engine. Token counts are as in Sequence.
struct SequenceView {
  const Request* request = nullptr;  ///< without its prompt
  SlotId slot;                       ///< of one that was admitted
  std::uint32_t prompt_tokens = 0;
  std::uint32_t known = 0;        ///< tokens that exist when the steps under way have ended
  std::uint32_t planned = 0;      ///< tokens computed when the steps under way have ended
  std::uint32_t prefill_end = 0;  ///< tokens before it are prefill
  std::uint32_t committed_blocks = 0;
  std::uint32_t output_limit = 0;
  std::uint32_t total_blocks = 0;  ///< that it can ever need
  bool ended = false;              ///< takes part in no further step
  std::span<const kv::BlockHash> block_hashes;
  std::span<const kv::BlockId> blocks;
};

/// Running requests in the order of their admission, waiting ones in the order in which they will be admitted.
struct CoreView {
  std::vector<SequenceView> running;
  std::vector<SequenceView> waiting;
  const kv::BlockPool* pool = nullptr;
};

}  // namespace kvist::engine
