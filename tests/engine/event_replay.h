// What a subscriber of KV events knows: the multiset of block names, rebuilt from events alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <variant>
#include <vector>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"

namespace kvist::engine {

using BlockCopies = std::map<std::uint64_t, std::uint32_t>;

class EventReplay {
 public:
  void apply(const kv::KvEvent& event) {
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) {
      EXPECT_EQ(stored->tokens.size(), stored->names_are_keys ? 0 : stored->hashes.size() * stored->block_size);
      if (stored->parent) {
        EXPECT_TRUE(seen_.contains(stored->parent->value())) << "a parent that was never stored";
      }
      for (const kv::ExternalHash hash : stored->hashes) {
        ++copies_[hash.value()];
        seen_[hash.value()] = true;
      }
    } else if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) {
      for (const kv::ExternalHash hash : removed->hashes) remove(hash.value());
    } else {
      copies_.clear();
    }
  }
  [[nodiscard]] const BlockCopies& copies() const { return copies_; }

 private:
  void remove(std::uint64_t hash) {
    const auto found = copies_.find(hash);
    ASSERT_NE(found, copies_.end()) << "a block was removed that is not there";
    if (--found->second == 0) copies_.erase(found);
  }

  BlockCopies copies_;
  std::map<std::uint64_t, bool> seen_;
};

/// The core's own answer in the same form.
inline BlockCopies sorted(const std::unordered_map<kv::BlockHash, std::uint32_t>& findable) {
  BlockCopies copies;
  for (const auto& [hash, count] : findable) copies[hash.value()] = count;
  return copies;
}

}  // namespace kvist::engine
