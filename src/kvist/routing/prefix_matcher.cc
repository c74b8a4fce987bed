#include "kvist/routing/prefix_matcher.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kvist::routing {
namespace {

// Keys fetched ahead: about as many cache misses as a core has under way at once.
constexpr std::size_t kAhead = 16;

template <class Visit>
void for_each_word(const WorkerSetPool& sets, WorkerSetHandle set, Visit visit) {
  if (WorkerSetPool::is_single(set)) {
    const std::uint32_t worker = WorkerSetPool::member(set);
    visit(worker / 64, std::uint64_t{1} << (worker % 64));
  } else {
    sets.get(set).for_each_word(visit);
  }
}

template <class Visit>
void for_each_bit(std::uint32_t word, std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(WorkerId(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits))));
}

}  // namespace

template <PrefixMatcher::Caller kCaller>
std::span<const WorkerMatch> PrefixMatcher::match(const KeyTable& keys, const WorkerSetPool& sets, std::uint16_t tick,
                                                  std::span<const kv::BlockHash> hashes) {
  matches_.clear();
  alive_count_ = 0;
  const auto probe = [&](std::size_t i) { return KeyTable::Probe(keys, KeyTable::valid(hashes[i].value())); };
  std::array<KeyTable::Probe, kAhead> probes;
  for (std::size_t i = 0; i < std::min(kAhead, hashes.size()); ++i) probes[i] = probe(i);
  for (std::size_t i = 0; i < std::min(kAhead / 2, hashes.size()); ++i) probes[i].prefetch_entry();
  WorkerSetHandle holders = WorkerSetPool::kEmpty;
  std::uint32_t depth = 0;
  for (; depth < hashes.size(); ++depth) {
    if (depth + kAhead / 2 < hashes.size()) probes[(depth + kAhead / 2) % kAhead].prefetch_entry();
    const KeyTable::Place place = probes[depth % kAhead].find();
    if (!place.found()) break;
    const WorkerSetHandle here = place.set();
    if (here == WorkerSetPool::kEmpty) break;
    if (depth + kAhead < hashes.size()) probes[depth % kAhead] = probe(depth + kAhead);
    if (depth == 0) {
      begin(sets, here);
    } else if (here != holders) {
      narrow(sets, here, depth);
      if (alive_count_ == 0) break;
    }
    holders = here;
    if constexpr (kCaller == Caller::kReader) {
      place.refresh_shared(tick);
    } else {
      place.refresh(tick);
    }
  }
  for (WorkerMatch& match : matches_) {
    if (match.blocks == 0) match.blocks = depth;
  }
  return matches_;
}

template std::span<const WorkerMatch> PrefixMatcher::match<PrefixMatcher::Caller::kWriter>(
    const KeyTable&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>);
template std::span<const WorkerMatch> PrefixMatcher::match<PrefixMatcher::Caller::kReader>(
    const KeyTable&, const WorkerSetPool&, std::uint16_t, std::span<const kv::BlockHash>);

void PrefixMatcher::begin(const WorkerSetPool& sets, WorkerSetHandle holders) {
  alive_.clear();
  for_each_word(sets, holders, [&](std::uint32_t word, std::uint64_t bits) {
    if (alive_.empty()) first_word_ = word;
    alive_.resize(word - first_word_ + 1);
    alive_.back() = bits;
    for_each_bit(word, bits, [&](WorkerId worker) { matches_.push_back({.worker = worker, .blocks = 0}); });
  });
  alive_count_ = matches_.size();
}

// Those that are not among `holders` hold `depth` blocks and no more.
void PrefixMatcher::narrow(const WorkerSetPool& sets, WorkerSetHandle holders, std::uint32_t depth) {
  if (matches_.size() == 1) {
    if (sets.contains(holders, matches_.front().worker.value())) return;
    matches_.front().blocks = depth;
    alive_count_ = 0;
    return;
  }
  std::uint32_t next = 0;
  const auto lose_until = [&](std::uint32_t end) {
    for (; next < end; ++next) lose(next, alive_[next], depth);
  };
  const auto end = static_cast<std::uint32_t>(alive_.size());
  for_each_word(sets, holders, [&](std::uint32_t word, std::uint64_t bits) {
    if (word < first_word_ || word - first_word_ >= end) return;
    lose_until(word - first_word_);
    lose(next, alive_[next] & ~bits, depth);
    ++next;
  });
  lose_until(end);
}

void PrefixMatcher::lose(std::uint32_t word, std::uint64_t bits, std::uint32_t depth) {
  alive_[word] &= ~bits;
  for_each_bit(first_word_ + word, bits, [&](WorkerId worker) {
    std::ranges::lower_bound(matches_, worker, {}, &WorkerMatch::worker)->blocks = depth;
    --alive_count_;
  });
}

}  // namespace kvist::routing
