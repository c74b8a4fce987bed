#include "kvist/gateway/prefix_cache.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "kvist/base/flat_map.h"
#include "kvist/base/random.h"

namespace kvist::gateway {
namespace {

// The memory that list, map and vectors take per segment.
constexpr std::size_t kSegmentOverheadBytes = 256;

// Ids of segments begin with 1 and never reach these numbers.
std::uint64_t first_parent(bool framed, bool marked) {
  return ~std::uint64_t{0} - (framed ? 1U : 0U) - (marked ? 2U : 0U);
}

// The part [begin, end) of a prompt as a prompt of its own.
tokenizer::RenderedPrompt part_of(const tokenizer::RenderedPrompt& prompt, std::size_t begin, std::size_t end) {
  tokenizer::RenderedPrompt part;
  part.text = prompt.text.substr(begin, end - begin);
  auto mark = std::ranges::upper_bound(prompt.from_messages, begin, {}, &tokenizer::RenderedPrompt::Range::end);
  for (; mark != prompt.from_messages.end() && mark->begin < end; ++mark)
    part.from_messages.push_back({std::max(mark->begin, begin) - begin, std::min(mark->end, end) - begin});
  return part;
}

}  // namespace

/// A prompt that is being read: its tokens and block hashes so far.
class PrefixCache::Reading {
 public:
  Reading(const tokenizer::Tokenizer& tokenizer, tokenizer::Tokenizer::Frame frame, kv::BlockHash root,
          std::uint32_t block_size)
      : tokenizer_(&tokenizer),
        frame_(frame),
        root_(root),
        last_(root),
        block_size_(block_size),
        tail_(frame.before.begin(), frame.before.end()) {
    whole_.tokens = static_cast<std::uint32_t>(tail_.size());
  }

  void append(const Segment& segment) {
    whole_.tokens += segment.tokens;
    whole_.blocks.insert(whole_.blocks.end(), segment.blocks.begin(), segment.blocks.end());
    tail_ = segment.tail;
    if (!whole_.blocks.empty()) last_ = whole_.blocks.back();
  }

  // Tokenizes the next part of the prompt and appends it.
  Segment read(tokenizer::RenderedPrompt part) { return read(std::move(part), {}); }

  // Tokenizes the last part and returns the whole prompt's length and hashes.
  PromptBlocks finish(tokenizer::RenderedPrompt part) && {
    static_cast<void>(read(std::move(part), frame_.behind));
    return std::move(whole_);
  }

 private:
  Segment read(tokenizer::RenderedPrompt part, std::span<const TokenId> behind) {
    std::vector<TokenId> tokens = std::move(tail_);
    const std::size_t before = tokens.size();
    tokenizer_->encode_prompt(part, tokens);
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    Segment segment;
    segment.root = root_;
    segment.tokens = static_cast<std::uint32_t>(tokens.size() - before);
    segment.blocks = kv::hash_blocks(last_, tokens, block_size_);
    const std::size_t complete = segment.blocks.size() * block_size_;
    segment.tail.assign(tokens.begin() + static_cast<std::ptrdiff_t>(complete), tokens.end());
    segment.prompt = std::move(part);
    append(segment);
    return segment;
  }

  const tokenizer::Tokenizer* tokenizer_;
  tokenizer::Tokenizer::Frame frame_;
  kv::BlockHash root_;
  kv::BlockHash last_;  // the hash of the last complete block so far
  std::uint32_t block_size_;
  PromptBlocks whole_;
  std::vector<TokenId> tail_;
};

// Clients choose the texts, so that the hash differs from process to process.
std::size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  return static_cast<std::size_t>(mix_seed({RandomSpread::of(1), key.parent, key.hash}));
}

PromptBlocks PrefixCache::blocks_of(PromptFrame frame, const tokenizer::RenderedPrompt& prompt,
                                    const tokenizer::Tokenizer& tokenizer, kv::BlockHash root,
                                    std::uint32_t block_size) {
  std::vector<std::size_t> places;
  tokenizer.cut_places(prompt, places);
  std::vector<std::size_t> ends;
  for (const std::size_t place : places)
    if (place >= (ends.empty() ? 0 : ends.back()) + kMinSegmentBytes) ends.push_back(place);

  const bool framed = frame == PromptFrame::kTokenizers;
  Reading reading(tokenizer, framed ? tokenizer.completion_frame() : tokenizer::Tokenizer::Frame(), root, block_size);
  std::size_t begin = 0;
  std::size_t next = 0;  // index into `ends`
  std::vector<Segments::iterator> path;
  std::uint64_t parent = first_parent(framed, !prompt.from_messages.empty());
  const auto key_of = [&](const tokenizer::RenderedPrompt& part) {
    return Key{.parent = parent, .hash = mix_seed({std::hash<std::string_view>()(part.text), root.value()})};
  };
  {
    const std::lock_guard lock(mutex_);
    for (; next < ends.size(); ++next) {
      const tokenizer::RenderedPrompt part = part_of(prompt, begin, ends[next]);
      const auto found = find(key_of(part), root, part);
      if (found == segments_.end()) break;
      reading.append(*found);
      path.push_back(found);
      parent = found->id;
      begin = ends[next];
    }
    // Marks the segments as used, the last one first, so that a segment is removed before the ones it depends on.
    for (; !path.empty(); path.pop_back()) segments_.splice(segments_.begin(), segments_, path.back());
    ++counters_.prompts;
    counters_.prompt_bytes += prompt.text.size();
    counters_.cached_bytes += begin;
  }
  std::vector<Segment> read;
  for (; next < ends.size(); ++next) {
    read.push_back(reading.read(part_of(prompt, begin, ends[next])));
    begin = ends[next];
  }
  // The last part is not cached, because the next turn of the chat continues it.
  PromptBlocks whole = std::move(reading).finish(part_of(prompt, begin, prompt.text.size()));
  const std::lock_guard lock(mutex_);
  for (Segment& segment : read) {
    segment.key = key_of(segment.prompt);
    // Another thread may have added the same segment in the meantime.
    if (const auto found = find(segment.key, root, segment.prompt); found != segments_.end()) {
      parent = found->id;
      continue;
    }
    segment.id = ++last_id_;
    const std::uint64_t id = segment.id;
    if (!add(std::move(segment))) break;
    parent = id;
  }
  return whole;
}

PrefixCache::Segments::iterator PrefixCache::find(const Key& key, kv::BlockHash root,
                                                  const tokenizer::RenderedPrompt& prompt) {
  const auto found = index_.find(key);
  if (found == index_.end()) return segments_.end();
  const Segment& segment = *found->second;
  const bool same = segment.root == root && segment.prompt.text == prompt.text &&
                    segment.prompt.from_messages == prompt.from_messages;
  return same ? found->second : segments_.end();
}

bool PrefixCache::add(Segment segment) {
  const std::size_t bytes = bytes_of(segment);
  if (bytes > max_bytes_ / 4) return false;
  const Key key = segment.key;
  if (index_.contains(key)) return false;
  while (counters_.bytes + bytes > max_bytes_) {
    counters_.bytes -= bytes_of(segments_.back());
    index_.erase(segments_.back().key);
    segments_.pop_back();
    ++counters_.evictions;
  }
  segments_.push_front(std::move(segment));
  index_.emplace(key, segments_.begin());
  counters_.bytes += bytes;
  return true;
}

std::size_t PrefixCache::bytes_of(const Segment& segment) {
  return kSegmentOverheadBytes + segment.prompt.text.size() + segment.prompt.from_messages.size() * sizeof(Range) +
         segment.blocks.size() * sizeof(kv::BlockHash) + segment.tail.size() * sizeof(TokenId);
}

PrefixCacheCounters PrefixCache::counters() const {
  const std::lock_guard lock(mutex_);
  PrefixCacheCounters counters = counters_;
  counters.segments = segments_.size();
  return counters;
}

}  // namespace kvist::gateway
