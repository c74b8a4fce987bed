#include "kvist/kv_index/worker_set_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace kvist::kv_index {
namespace {

// A set's hash is the exclusive or of its members' hashes (Zobrist, 1970). So a change needs only the hash of the
// worker that joins or leaves.
std::uint64_t member_hash(std::uint32_t worker) {
  std::uint64_t x = (worker + 1U) * 0x9E37'79B9'7F4A'7C15ULL;  // SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBULL;
  return x ^ (x >> 31);
}

}  // namespace

bool PooledWorkerSet::contains(std::uint32_t worker) const {
  if (word_count_ == 0) return std::binary_search(ids(), ids() + count_, worker);
  const std::uint32_t i = worker / 64 - first_word_;  // wraps to a large number below the first
  return i < word_count_ && (words()[i] >> (worker % 64) & 1) != 0;
}

WorkerSetPool::WorkerSetPool(IndexMemory& memory, Epochs& epochs)
    : memory_(memory), epochs_(epochs), retired_(epochs), by_hash_(memory) {}

WorkerSetPool::~WorkerSetPool() {
  Chunks* const chunks = chunks_.load();
  if (chunks == nullptr) return;
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const PooledWorkerSet* const set = chunk_of(slot).sets[slot % kChunkSlots].load();
    if (set != nullptr) memory_.release(const_cast<PooledWorkerSet*>(set), set_bytes(set->content_bytes()));
  }
  for (std::uint32_t i = 0; i * kChunkSlots < slots_; ++i) memory_.release(chunks->at(i).load(), sizeof(Chunk));
  memory_.release(chunks, chunks_bytes(chunks->capacity));
}

std::uint32_t& WorkerSetPool::references(WorkerSetHandle set) {
  const std::uint32_t slot = set - kPooled;
  return chunk_of(slot).references[slot % kChunkSlots];
}

std::uint64_t WorkerSetPool::hash_of(WorkerSetHandle set) const {
  return is_single(set) ? member_hash(member(set)) : get(set).hash_;
}

WorkerSetHandle WorkerSetPool::changed(WorkerSetHandle set, std::uint32_t worker) {
  const bool known = last_.from == set && last_.worker == worker && last_.to != kEmpty;
  const WorkerSetHandle to = known ? last_.to : find_or_make(set, worker);
  if (!is_single(to)) ++references(to);
  last_ = {.from = set, .worker = worker, .to = to};
  if (!is_single(set)) drop(set);
  return to;
}

WorkerSetHandle WorkerSetPool::find_or_make(WorkerSetHandle set, std::uint32_t worker) {
  compose(set, worker);
  if (composed_count_ == 1) {
    return single(composed_first_ * 64 + static_cast<std::uint32_t>(std::countr_zero(composed_.front())));
  }
  const std::uint64_t hash = hash_of(set) ^ member_hash(worker);
  const auto known = static_cast<WorkerSetHandle>(by_hash_.find(NameDigest(hash)));
  if (known != kEmpty && holds_composed(get(known))) return known;
  return make_composed(hash);
}

void WorkerSetPool::compose(WorkerSetHandle set, std::uint32_t toggled) {
  std::uint32_t first = toggled / 64;
  std::uint32_t last = first;
  const auto for_each_word = [&](auto visit) {
    if (is_single(set)) {
      visit(member(set) / 64, std::uint64_t{1} << (member(set) % 64));
    } else {
      get(set).for_each_word(visit);
    }
  };
  for_each_word([&](std::uint32_t word, std::uint64_t) {
    first = std::min(first, word);
    last = std::max(last, word);
  });
  composed_.assign(last - first + 1, 0);
  for_each_word([&](std::uint32_t word, std::uint64_t bits) { composed_[word - first] = bits; });
  composed_[toggled / 64 - first] ^= std::uint64_t{1} << (toggled % 64);
  while (composed_.back() == 0) composed_.pop_back();
  const auto begin = std::ranges::find_if(composed_, [](std::uint64_t bits) { return bits != 0; });
  composed_first_ = first + static_cast<std::uint32_t>(begin - composed_.begin());
  composed_.erase(composed_.begin(), begin);
  composed_count_ = 0;
  for (const std::uint64_t bits : composed_) composed_count_ += static_cast<std::uint32_t>(std::popcount(bits));
}

bool WorkerSetPool::holds_composed(const PooledWorkerSet& set) const {
  if (set.count_ != composed_count_) return false;
  bool equal = true;
  set.for_each_word([&](std::uint32_t word, std::uint64_t bits) {
    const std::uint32_t i = word - composed_first_;
    equal = equal && i < composed_.size() && composed_[i] == bits;
  });
  return equal;
}

WorkerSetHandle WorkerSetPool::make_composed(std::uint64_t hash) {
  const bool listed = composed_count_ * sizeof(std::uint32_t) < composed_.size() * sizeof(std::uint64_t);
  const std::size_t content =
      listed ? composed_count_ * sizeof(std::uint32_t) : composed_.size() * sizeof(std::uint64_t);
  auto* const made = new (memory_.allocate(set_bytes(content))) PooledWorkerSet;
  made->hash_ = hash;
  made->count_ = composed_count_;
  if (listed) {
    auto* id = reinterpret_cast<std::uint32_t*>(made + 1);
    for (std::uint32_t i = 0; i < composed_.size(); ++i) {
      for (std::uint64_t bits = composed_[i]; bits != 0; bits &= bits - 1) {
        *id++ = (composed_first_ + i) * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      }
    }
  } else {
    made->first_word_ = composed_first_;
    made->word_count_ = static_cast<std::uint32_t>(composed_.size());
    std::ranges::copy(composed_, reinterpret_cast<std::uint64_t*>(made + 1));
  }
  const std::uint32_t slot = take_slot();
  Chunk& chunk = chunk_of(slot);
  chunk.references[slot % kChunkSlots] = 0;
  chunk.sets[slot % kChunkSlots].store(made, std::memory_order_release);
  ++sets_;
  // If another set has the same 64-bit hash, this one is not found again: that costs memory and breaks nothing.
  static_cast<void>(by_hash_.insert(NameDigest(hash), kPooled + slot));
  return kPooled + slot;
}

void WorkerSetPool::drop(WorkerSetHandle set) {
  if (--references(set) > 0) return;
  if (last_.from == set || last_.to == set) last_ = {};
  const std::uint64_t hash = get(set).hash_;
  if (by_hash_.find(NameDigest(hash)) == set) by_hash_.erase(NameDigest(hash));
  --sets_;
  if (!epochs_.has_readers()) return free_slot(set - kPooled);
  retired_.add(set - kPooled);
  memory_.count(retired_.kBytes);
}

void WorkerSetPool::reclaim() {
  retired_.reclaim([this](std::uint32_t slot) {
    free_slot(slot);
    memory_.count(-retired_.kBytes);
  });
}

void WorkerSetPool::free_slot(std::uint32_t slot) {
  Chunk& chunk = chunk_of(slot);
  const PooledWorkerSet* const set = chunk.sets[slot % kChunkSlots].exchange(nullptr);
  memory_.release(const_cast<PooledWorkerSet*>(set), set_bytes(set->content_bytes()));
  chunk.references[slot % kChunkSlots] = first_free_;
  first_free_ = slot;
}

std::uint32_t WorkerSetPool::take_slot() {
  if (first_free_ != kNone) {
    const std::uint32_t slot = first_free_;
    first_free_ = chunk_of(slot).references[slot % kChunkSlots];
    return slot;
  }
  const std::uint32_t slot = slots_++;
  if (slot % kChunkSlots != 0) return slot;
  Chunks* chunks = chunks_.load();
  const std::uint32_t number = slot / kChunkSlots;
  if (chunks == nullptr || number == chunks->capacity) {
    const std::uint64_t capacity = chunks == nullptr ? 7 : 2 * chunks->capacity + 1;  // with the count, whole lines
    auto* const made = new (memory_.allocate(chunks_bytes(capacity))) Chunks{.capacity = capacity};
    for (std::uint32_t i = 0; i < number; ++i) made->at(i).store(chunks->at(i).load(), std::memory_order_relaxed);
    chunks_.store(made, std::memory_order_release);
    if (chunks != nullptr) memory_.retire(chunks, chunks_bytes(chunks->capacity));
    chunks = made;
  }
  chunks->at(number).store(static_cast<Chunk*>(memory_.allocate(sizeof(Chunk))), std::memory_order_release);
  return slot;
}

std::size_t WorkerSetPool::growth_bytes(std::size_t workers) const {
  const Chunks* const chunks = chunks_.load(std::memory_order_relaxed);
  return sizeof(Chunk) + by_hash_.growth_bytes() + 2 * chunks_bytes(chunks == nullptr ? 7 : chunks->capacity) +
         set_bytes((workers / 64 + 1) * sizeof(std::uint64_t));
}

}  // namespace kvist::kv_index
