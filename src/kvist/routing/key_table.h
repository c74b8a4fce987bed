// Who holds which block: the part of the KV index that readers search.
#pragma once

#include <atomic>
#include <cstdint>

#include "kvist/routing/block_use.h"
#include "kvist/routing/epochs.h"
#include "kvist/routing/segmented_slots.h"
#include "kvist/routing/worker_set_pool.h"

namespace kvist::routing {

/// By block key the set of workers that hold it (a handle of WorkerSetPool, never 0) and its BlockUse: 17 bytes per
/// entry before the load factor.
///
/// Why readers are right without locks: an entry never moves in its segment and its slot is not used for another key
/// while a reader may look at it, so key and set that are read one after the other belong together: while there are
/// readers, a slot that becomes empty keeps the epoch, and is used again once that has passed. A segment that is copied
/// is frozen and stays until its readers are gone. Threads: Probe, set() and refresh_shared() for readers in an epoch,
/// everything else for the writer.
class KeyTable {
 private:
  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<WorkerSetHandle> set;
    std::atomic<std::uint32_t>
        use;  // a BlockUse; of a slot without an entry kEmptied and the epoch when it became that

    [[nodiscard]] std::uint64_t hash() const { return key.load(std::memory_order_relaxed); }
    void copy(const Entry& from) {
      use.store(from.use.load(std::memory_order_relaxed), std::memory_order_relaxed);
      set.store(from.set.load(std::memory_order_relaxed), std::memory_order_relaxed);
      key.store(from.hash(), std::memory_order_relaxed);
    }
  };
  static constexpr std::uint32_t kEmptied = 1U << 31;
  using Slots = SegmentedSlots<Entry, true, 1024>;

 public:
  /// An entry, or the place for one.
  class Place {
   public:
    Place() = default;
    [[nodiscard]] bool found() const { return found_; }
    [[nodiscard]] WorkerSetHandle set() const { return at_.entry->set.load(std::memory_order_acquire); }
    [[nodiscard]] BlockUse use() const { return BlockUse(at_.entry->use.load(std::memory_order_relaxed)); }
    /// A reader's: it was of use now. One try: whoever else changes it meanwhile is as right.
    void refresh_shared(std::uint16_t tick) const {
      std::uint32_t bits = at_.entry->use.load(std::memory_order_relaxed);
      if ((bits & kEmptied) != 0 || BlockUse(bits).tick() == tick) return;
      at_.entry->use.compare_exchange_strong(bits, BlockUse(bits).at(tick).bits(), std::memory_order_relaxed);
    }
    /// The same by the writer itself while no reader is at work.
    void refresh(std::uint16_t tick) const {
      if (use().tick() != tick) set_use(use().at(tick));
    }
    void set_use(BlockUse use) const { at_.entry->use.store(use.bits(), std::memory_order_relaxed); }
    void set_set(WorkerSetHandle set) const { at_.entry->set.store(set, std::memory_order_release); }

   private:
    friend class KeyTable;
    Slots::Place at_;
    Slots::Spot spot_;  // of a place that may be changed
    bool found_ = false;
  };

  /// A search whose memory is being fetched: first its tags, then, once asked to, the entry. Valid as long as the table
  /// is not changed by the same thread, for readers until the end of their epoch.
  class Probe {
   public:
    Probe() = default;
    Probe(const KeyTable& table, std::uint64_t key) : key_(key), segment_(table.slots_.segment(key)) {
      if (segment_.count != 0) segment_.prefetch_tags(key);
    }
    void prefetch_entry() {
      if (segment_.count != 0) likely_ = segment_.prefetch_tagged(key_);
    }
    /// The entry; found() is false where there is none. An entry that was there when its memory was asked for counts:
    /// its slot gets no other key while somebody may read it.
    [[nodiscard, gnu::always_inline]] Place find() const {
      Place place;
      if (likely_ != nullptr && likely_->key.load(std::memory_order_acquire) == key_) [[likely]] {
        place.at_.entry = likely_;
      } else if (segment_.count != 0) {
        place.at_ = search(segment_, key_);
      }
      place.found_ = place.at_.entry != nullptr;
      return place;
    }

   private:
    std::uint64_t key_ = 0;
    Slots::Segment segment_;
    Entry* likely_ = nullptr;  // with the key's tag
  };

  KeyTable(IndexMemory& memory, Epochs& epochs) : epochs_(epochs), slots_(memory) {}

  /// The value that means something else where keys are told stands for another, which nobody will miss: a key is a
  /// hash.
  [[nodiscard]] static std::uint64_t valid(std::uint64_t key) { return key != 0 ? key : 1; }

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  /// A change or a search of the writer's comes: see SegmentedSlots. Its `hash` is the key.
  using Ahead = Slots::Ahead;
  void prefetch_ahead(std::uint64_t key, Ahead& ahead) { slots_.prefetch_ahead(key, ahead); }
  void prefetch_entry(Ahead& ahead) const { slots_.prefetch_entry(ahead); }
  [[nodiscard]] Place find(std::uint64_t key) const { return Probe(*this, key).find(); }
  /// The entry, for erase() too.
  [[nodiscard]] Place find(const Ahead& ahead);
  /// The entry, or else the place where put() puts it.
  [[nodiscard]] Place find_or_place(const Ahead& ahead);
  /// Puts an entry where find_or_place() found none.
  void put(const Place& place, std::uint64_t key, WorkerSetHandle set, BlockUse use);
  /// Takes an entry out; the table may move.
  void erase(const Place& place, std::uint64_t key);
  /// Puts an entry where an Ahead saw that there is none and where it goes; false where that has to be searched.
  [[nodiscard]] bool put_ahead(const Ahead& ahead, WorkerSetHandle set, BlockUse use);
  /// The set of the entry that an Ahead saw, and kEmpty where that has to be searched; erase_ahead() takes it out.
  [[nodiscard]] WorkerSetHandle set_ahead(const Ahead& ahead) const;
  void erase_ahead(const Ahead& ahead);
  /// The uses of entries near a point of the table, for samples: calls visit(key, use) for each.
  template <class Visit>
  void visit_near(std::uint64_t hash, Visit visit) const {
    const Slots::Segment segment = slots_.segment(hash);
    if (segment.count == 0) return;
    segment.for_each_in_group(segment.home(hash), [&](const Entry& entry) {
      visit(entry.hash(), BlockUse(entry.use.load(std::memory_order_relaxed)));
    });
  }

  /// What one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return slots_.growth_bytes(); }

 private:
  [[nodiscard, gnu::always_inline]] static Slots::Place search(const Slots::Segment& segment, std::uint64_t key) {
    return segment.find(key, [key](const Entry& entry) { return entry.key.load(std::memory_order_acquire) == key; });
  }
  [[nodiscard]] Place place_beside_readers(std::uint64_t key);
  // Whether no reader may still look at the entry that was in the slot.
  [[nodiscard]] bool usable(const Entry& entry) const {
    const std::uint32_t bits = entry.use.load(std::memory_order_relaxed);
    if ((bits & kEmptied) == 0) return true;
    const std::uint64_t now = epochs_.current();
    return epochs_.passed(now - ((now - bits) & (kEmptied - 1)));
  }
  [[nodiscard]] std::uint32_t emptied_now() const {
    return kEmptied | static_cast<std::uint32_t>(epochs_.current() & (kEmptied - 1));
  }

  Epochs& epochs_;
  Slots slots_;
};

[[gnu::always_inline]] inline KeyTable::Place KeyTable::find(const Ahead& ahead) {
  Place place;
  if (size() == 0) return place;
  place.spot_ = slots_.spot(ahead);
  place.at_ = slots_.find(ahead, place.spot_, [&](const Entry& entry) { return entry.hash() == ahead.hash; });
  place.found_ = place.at_.entry != nullptr;
  return place;
}

[[gnu::always_inline]] inline KeyTable::Place KeyTable::find_or_place(const Ahead& ahead) {
  const std::uint64_t key = ahead.hash;
  Place place;
  place.spot_ = slots_.spot_with_room(ahead);
  const auto [at, found] =
      slots_.find_or_place(ahead, place.spot_, [key](const Entry& entry) { return entry.hash() == key; });
  place.at_ = at;
  place.found_ = found;
  return !found && epochs_.has_readers() ? place_beside_readers(key) : place;
}

[[gnu::always_inline]] inline void KeyTable::put(const Place& place, std::uint64_t key, WorkerSetHandle set,
                                                 BlockUse use) {
  Entry& entry = *place.at_.entry;
  entry.use.store(use.bits(), std::memory_order_relaxed);
  entry.set.store(set, std::memory_order_relaxed);
  entry.key.store(key, std::memory_order_release);
  slots_.added(place.spot_, key, place.at_);
}

[[gnu::always_inline]] inline bool KeyTable::put_ahead(const Ahead& ahead, WorkerSetHandle set, BlockUse use) {
  Entry* const slot = slots_.free_slot(ahead);
  if (slot == nullptr || (epochs_.has_readers() && !usable(*slot))) [[unlikely]]
    return false;
  slot->use.store(use.bits(), std::memory_order_relaxed);
  slot->set.store(set, std::memory_order_relaxed);
  slot->key.store(ahead.hash, std::memory_order_release);
  slots_.added(ahead);
  return true;
}

[[gnu::always_inline]] inline WorkerSetHandle KeyTable::set_ahead(const Ahead& ahead) const {
  const Entry* const entry = slots_.tagged_entry(ahead);
  if (entry == nullptr || entry->hash() != ahead.hash) [[unlikely]]
    return WorkerSetPool::kEmpty;
  return entry->set.load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline void KeyTable::erase_ahead(const Ahead& ahead) {
  slots_.tagged_entry(ahead)->use.store(emptied_now(), std::memory_order_relaxed);
  slots_.remove(ahead);
}

// Readers that found the key before see the set that it had: the slot gets no other until they are gone.
[[gnu::always_inline]] inline void KeyTable::erase(const Place& place, std::uint64_t key) {
  place.at_.entry->use.store(emptied_now(), std::memory_order_relaxed);
  slots_.remove(place.spot_, key, place.at_);
}

}  // namespace kvist::routing
