// Tokens and block names of the beginnings of prompts, so that a long chat costs only what is new in it.
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

/// A prompt's length and the names of its complete blocks.
struct PromptBlocks {
  std::uint32_t tokens = 0;
  std::vector<kv::BlockHash> blocks;
};

/// What a prompt is encoded within: nothing, or Tokenizer::completion_frame().
enum class PromptFrame : std::uint8_t { kNone, kTokenizers };

struct PrefixCacheCounters {
  std::uint64_t prompts = 0;
  std::uint64_t prompt_bytes = 0;  ///< of rendered text
  std::uint64_t cached_bytes = 0;  ///< of those, tokenized before
  std::uint64_t evictions = 0;     ///< segments given up for others
  std::size_t segments = 0;
  std::size_t bytes = 0;
};

/// Cuts a prompt where its tokenizer says that the parts are independent (before special tokens of the template, and
/// between words where that is sure) into segments of at least kMinSegmentBytes, which depend on the text before them
/// alone: a prompt that goes on as another one did has the same segments as far as they are equal. Each is kept under
/// the one before it with its whole text and marks, so that equal means equal. Bounded in bytes, least recently used
/// segments go first. Thread-safe; tokenizing happens outside of the lock.
class PrefixCache {
 public:
  static constexpr std::size_t kMinSegmentBytes = 256;

  explicit PrefixCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// What tokenizer and kv::hash_blocks() give, with as little tokenizing as possible. Prompts share segments only with
  /// those of the same frame, and those with marks only with others that have some: one text may be read both ways.
  [[nodiscard]] PromptBlocks blocks_of(PromptFrame frame, const tokenizer::RenderedPrompt& prompt,
                                       const tokenizer::Tokenizer& tokenizer, kv::BlockHash root,
                                       std::uint32_t block_size);

  [[nodiscard]] PrefixCacheCounters counters() const;

 private:
  using Range = tokenizer::RenderedPrompt::Range;

  /// `parent`: the segment before; for a first one a number by frame and marks that is no segment's.
  struct Key {
    std::uint64_t parent = 0;
    std::uint64_t hash = 0;

    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  /// What a segment adds to the prompt before it.
  struct Segment {
    std::uint64_t id = 0;
    Key key;
    kv::BlockHash root{0};
    tokenizer::RenderedPrompt prompt;
    std::uint32_t tokens = 0;
    std::vector<kv::BlockHash> blocks;
    std::vector<TokenId> tail;  ///< of the prompt up to here, behind its last complete block
  };
  using Segments = std::list<Segment>;  // the most recently used first

  class Reading;

  [[nodiscard]] Segments::iterator find(const Key& key, kv::BlockHash root, const tokenizer::RenderedPrompt& prompt);
  /// False if it does not fit, or another one has its key.
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
