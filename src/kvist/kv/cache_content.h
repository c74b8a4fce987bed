// What a cache holds after a series of KV events, and events that say the same from nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// The blocks that a series of events left behind, with their parents and tokens (log compaction: many events, of which
/// most have cancelled each other, become few). A block that was removed stays as long as others name it as their
/// parent, because a subscriber finds their place in the prompt by it.
///
/// It serves caches of one medium and one KV cache group, as kvist's workers have. After an event of another medium or
/// group possible() is false. Threads: one at a time.
class CacheContent {
 public:
  void apply(const std::vector<KvEvent>& events);
  /// Whether events() can say what the cache holds.
  [[nodiscard]] bool possible() const { return possible_; }
  /// The cache is cleared, then every block is stored, parents first and each as often as it has copies, then the
  /// blocks that were kept only as parents are removed. Requires: possible().
  [[nodiscard]] std::vector<KvEvent> events() const;
  /// The number of known blocks, including those that were kept only as parents.
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }

 private:
  struct Block {
    std::optional<ExternalHash> parent;
    std::vector<TokenId> tokens;
    std::string lora_name;
    std::string cache_salt;
    bool other_extra_keys = false;
    std::uint32_t copies = 0;
    std::uint32_t children = 0;
  };
  /// Who chooses prompts chooses the hashes of their blocks.
  struct Spread {
    std::size_t operator()(ExternalHash hash) const { return static_cast<std::size_t>(RandomSpread::of(hash.value())); }
  };
  using Blocks = std::unordered_map<ExternalHash, Block, Spread>;
  using Children = std::unordered_map<ExternalHash, std::vector<ExternalHash>, Spread>;

  void store(const BlockStored& stored);
  void remove(const BlockRemoved& removed);
  /// Forgets the block, and then its parents, as far as nothing needs them any more.
  void forget_unneeded(ExternalHash hash);
  /// One event for `first` and its first child, that one's first child and so on. The others are added to `later`.
  [[nodiscard]] BlockStored run_from(ExternalHash first, const Children& children,
                                     std::vector<ExternalHash>& later) const;
  [[nodiscard]] bool fits(const BlockStored& run, const Block& block) const;

  Blocks blocks_;
  bool possible_ = true;
};

}  // namespace kvist::kv
