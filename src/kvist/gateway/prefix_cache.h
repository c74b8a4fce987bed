// Caches tokens and block hashes of the beginnings of prompts, so that only the new part of a long chat is tokenized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/tokenizer/rendered_prompt.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::gateway {

/// A prompt's length and the hashes of its complete blocks.
struct PromptBlocks {
  std::uint32_t tokens = 0;
  std::vector<kv::BlockHash> blocks;
};

/// What is put around a prompt's tokens: nothing, or Tokenizer::completion_frame().
enum class PromptFrame : std::uint8_t { kNone, kTokenizers };

struct PrefixCacheCounters {
  std::uint64_t prompts = 0;
  std::uint64_t prompt_bytes = 0;  ///< of rendered text
  std::uint64_t cached_bytes = 0;  ///< the part of them that was found in the cache
  std::uint64_t evictions = 0;     ///< segments removed for others
  std::size_t segments = 0;
  std::size_t bytes = 0;
};

/// Cuts a prompt into segments of at least kMinSegmentBytes, at places where its tokenizer guarantees that the parts
/// are tokenized independently (before special tokens of the template, and between words where that is certain). The
/// cuts depend only on the text before them. So two prompts with a common beginning have the same segments there. A
/// segment is stored below the one before it, with its whole text and marks, which are compared in full: a hash
/// collision does no harm. Memory is bounded in bytes, and the least recently used segments are removed first. Threads:
/// any; tokenizing happens outside of the lock.
class PrefixCache {
 public:
  static constexpr std::size_t kMinSegmentBytes = 256;

  explicit PrefixCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Returns what the tokenizer and kv::hash_blocks() give, but tokenizes only segments that are not cached. Prompts
  /// share segments only within the same frame, and prompts with marks only among themselves, because a text may be
  /// tokenized differently with marks and without.
  [[nodiscard]] PromptBlocks blocks_of(PromptFrame frame, const tokenizer::RenderedPrompt& prompt,
                                       const tokenizer::Tokenizer& tokenizer, kv::BlockHash root,
                                       std::uint32_t block_size);

  [[nodiscard]] PrefixCacheCounters counters() const;

 private:
  using Range = tokenizer::RenderedPrompt::Range;

  /// `parent` is the id of the segment before. For a first segment it is a number that stands for frame and marks, and
  /// is not the id of any segment.
  struct Key {
    std::uint64_t parent = 0;
    std::uint64_t hash = 0;

    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  /// A segment of a prompt.
  struct Segment {
    std::uint64_t id = 0;
    Key key;
    kv::BlockHash root{0};
    tokenizer::RenderedPrompt prompt;
    std::uint32_t tokens = 0;
    std::vector<kv::BlockHash> blocks;
    std::vector<TokenId> tail;  ///< the tokens behind the last complete block of the prompt that ends with this segment
  };
  using Segments = std::list<Segment>;  // most recently used first

  class Reading;

  [[nodiscard]] Segments::iterator find(const Key& key, kv::BlockHash root, const tokenizer::RenderedPrompt& prompt);
  /// Returns false if the segment does not fit, or if another one has its key.
  [[nodiscard]] bool add(Segment segment);
  [[nodiscard]] static std::size_t bytes_of(const Segment& segment);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards all below
  Segments segments_;
  std::unordered_map<Key, Segments::iterator, KeyHash> index_;
  std::uint64_t last_id_ = 0;
  PrefixCacheCounters counters_;
};

}  // namespace kvist::gateway
