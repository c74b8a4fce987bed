#include "kvist/tokenizer/bpe_model.h"

#include <algorithm>
#include <utility>

#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

constexpr std::uint32_t kNone = 0xFFFF'FFFF;
// Up to this length, comparing all pairs for each merge is faster than a heap.
constexpr std::size_t kShortWord = 48;

struct Later {
  bool operator()(const BpeMemory::Candidate& a, const BpeMemory::Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

void BpeModel::encode(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const {
  if (ignore_merges_) {
    if (const auto whole = words_.find(word)) return out.push_back(*whole);
  }
  cuts_before_space_ ? encode_bordered(word, out, memory) : encode_cached(word, out, memory);
}

// No merge crosses a border that no token crosses. So the parts between such borders are encoded as words of their own.
void BpeModel::encode_bordered(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const {
  std::size_t begin = 0;
  for (std::size_t at = word.find(kMetaspace, 1); at != std::string_view::npos; at = word.find(kMetaspace, at + 1)) {
    const std::uint32_t before = code_point_at(word, character_before(word, at)).value;
    if (std::ranges::binary_search(before_space_, before)) continue;
    encode_cached(word.substr(begin, at - begin), out, memory);
    begin = at;
  }
  encode_cached(word.substr(begin), out, memory);
}

void BpeModel::encode_cached(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const {
  const bool cached = WordCache::takes(word);
  const std::size_t hash = cached ? WordCache::hash(word) : 0;
  if (cached) {
    if (const auto tokens = memory.cache.find(word, hash); !tokens.empty()) {
      out.insert(out.end(), tokens.begin(), tokens.end());
      return;
    }
  }
  memory.ids.clear();
  append_symbols(word, memory.ids);
  memory.ids.size() <= kShortWord ? merge_short(memory) : merge_long(memory);
  const std::size_t begin = out.size();
  for (const std::uint32_t id : memory.ids) out.emplace_back(id);
  if (cached) memory.cache.put(word, hash, std::span(out).subspan(begin));
}

void BpeModel::append_symbols(std::string_view word, std::vector<std::uint32_t>& ids) const {
  if (byte_level_) {
    for (const char byte : word) ids.push_back(byte_tokens_[static_cast<std::uint8_t>(byte)]);
    return;
  }
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const CodePoint c = code_point_at(word, at);
    bool unknown = false;
    if (const std::uint32_t* id = character_tokens_.find(CharacterKey(c.value))) {
      ids.push_back(*id);
    } else if (byte_fallback_) {
      for (const char byte : word.substr(at, c.bytes)) ids.push_back(byte_tokens_[static_cast<std::uint8_t>(byte)]);
    } else if (unknown_) {
      unknown = true;
      if (!(after_unknown && fuse_unknown_)) ids.push_back(unknown_->value());
    }
    after_unknown = unknown;
    at += c.bytes;
  }
}

void BpeModel::merge_short(BpeMemory& memory) const {
  std::vector<std::uint32_t>& ids = memory.ids;
  std::vector<MergeTable::Merge>& merges = memory.merges;  // [i]: of ids[i] and ids[i + 1]
  merges.clear();
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) merges.push_back(merges_.find(ids[i], ids[i + 1]));
  while (!merges.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < merges.size(); ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNoMerge) return;
    ids[best] = merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best < merges.size()) merges[best] = merges_.find(ids[best], ids[best + 1]);
  }
}

// Merges with a heap of candidates over a linked list. Candidates whose symbols have changed are skipped. They are
// recognised by their result, because the text of a changed pair has grown.
void BpeModel::merge_long(BpeMemory& memory) const {
  std::vector<BpeMemory::Symbol>& symbols = memory.symbols;
  std::vector<BpeMemory::Candidate>& heap = memory.heap;
  const auto count = static_cast<std::uint32_t>(memory.ids.size());
  symbols.clear();
  heap.clear();
  // Reserved at once, because growing step by step would take up to three times the memory for a text of megabytes.
  symbols.reserve(count);
  heap.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols.push_back({memory.ids[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1, true});
  }
  const auto merge_at = [&](std::uint32_t at) { return merges_.find(symbols[at].id, symbols[symbols[at].next].id); };
  const auto add = [&](std::uint32_t at) {
    const MergeTable::Merge merge = merge_at(at);
    if (merge.rank == MergeTable::kNoMerge) return false;
    heap.push_back({merge.rank, at, merge.result});
    return true;
  };
  for (std::uint32_t i = 0; i + 1 < count; ++i) add(i);
  std::ranges::make_heap(heap, Later{});
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, Later{});
    const BpeMemory::Candidate top = heap.back();
    heap.pop_back();
    BpeMemory::Symbol& left = symbols[top.at];
    if (!left.alive || left.next == kNone) continue;
    const MergeTable::Merge merge = merge_at(top.at);
    if (merge.rank != top.rank || merge.result != top.result) continue;
    BpeMemory::Symbol& right = symbols[left.next];
    right.alive = false;
    left.id = merge.result;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = top.at;
    if (left.previous != kNone && add(left.previous)) std::ranges::push_heap(heap, Later{});
    if (left.next != kNone && add(top.at)) std::ranges::push_heap(heap, Later{});
  }
  memory.ids.clear();
  for (std::uint32_t at = 0; at != kNone; at = symbols[at].next) memory.ids.push_back(symbols[at].id);
}

}  // namespace kvist::tokenizer
