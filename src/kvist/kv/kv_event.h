// KV events: what a worker publishes about the content of its prefix cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::kv {

/// A block's name: the hash that its worker uses for it in events. It is opaque and serves only to find parents and
/// what is removed. A name that consists of raw bytes (32 in vLLM) is kept as their XXH3-64.
using ExternalHash = Id<struct ExternalHashTag, std::uint64_t>;

/// Where the blocks of an event live.
enum class Medium : std::uint8_t { kDevice, kHost, kDisk, kRemote };
/// "gpu", "cpu", "disk", "remote"
[[nodiscard]] constexpr std::string_view to_string(Medium medium) {
  switch (medium) {
    case Medium::kDevice:
      return "gpu";
    case Medium::kHost:
      return "cpu";
    case Medium::kDisk:
      return "disk";
    case Medium::kRemote:
      break;
  }
  return "remote";
}

/// Consecutive complete blocks became findable. Invariant: tokens.size() == hashes.size() * block_size, or there are no
/// tokens: then each block is one that the worker has stored under that name before, now in this medium too, unless
/// `names_are_keys`.
struct BlockStored {
  std::vector<ExternalHash> hashes;
  std::optional<ExternalHash> parent;  ///< the block before the first; nothing at the start of a prompt
  std::vector<TokenId> tokens;
  std::uint32_t block_size = 0;
  Medium medium = Medium::kDevice;
  std::string lora_name;          ///< empty: none
  std::string cache_salt;         ///< only with a prompt's first block: later ones inherit it by parent; empty: none
  std::uint32_t group = 0;        ///< KV cache group of a hybrid-attention model
  bool other_extra_keys = false;  ///< there are multimodal or unknown keys: never match such blocks by tokens alone
  /// The names are the block hashes that whoever is told would compute itself (kv/block_hash.h), so they do without the
  /// tokens. Only between parts of one process, which can believe that: it is never sent.
  bool names_are_keys = false;
  friend bool operator==(const BlockStored&, const BlockStored&) = default;
};

/// One physical copy of each block was dropped; another copy may remain.
struct BlockRemoved {
  std::vector<ExternalHash> hashes;
  Medium medium = Medium::kDevice;
  std::uint32_t group = 0;
  friend bool operator==(const BlockRemoved&, const BlockRemoved&) = default;
};

/// The worker's cache is empty now.
struct AllBlocksCleared {
  friend bool operator==(const AllBlocksCleared&, const AllBlocksCleared&) = default;
};

using KvEvent = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

/// Events of one step, in the order in which the pool changed.
struct KvEventBatch {
  double timestamp_s = 0;  ///< Unix time at the publisher
  std::vector<KvEvent> events;
  std::optional<std::int32_t> data_parallel_rank;
  friend bool operator==(const KvEventBatch&, const KvEventBatch&) = default;
};

}  // namespace kvist::kv
