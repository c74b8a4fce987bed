// Who holds which block: the part of the KV index that readers search.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "kvist/routing/block_use.h"
#include "kvist/routing/segmented_lines.h"

namespace kvist::routing {

/// By block key the set of workers that hold it (a handle of WorkerSetPool, never 0) and its BlockUse: 16 bytes per
/// entry before the load factor.
///
/// Why readers are right without locks: an entry never moves in its segment and its slot is not used for another key
/// while a reader may look at it, so key and set that are read one after the other belong together: while there are
/// readers, what is taken out leaves a grave, which is used again once its epoch has passed. A segment that is copied
/// is frozen and stays until its readers are gone. Threads: Probe and use() for readers in an epoch, everything else
/// for the writer.
class KeyTable {
 private:
  struct alignas(IndexMemory::kAlignment) Line {
    std::atomic<std::uint64_t> keys[4];
    std::atomic<std::uint32_t> sets[4];
    std::atomic<std::uint32_t> uses[4];  // a BlockUse; of a dead entry kDead and the epoch in which it died

    [[nodiscard]] bool used(std::uint32_t s) const { return keys[s].load(std::memory_order_relaxed) != kNoKey; }
    [[nodiscard]] bool live(std::uint32_t s) const { return keys[s].load(std::memory_order_relaxed) > kDeadKey; }
    [[nodiscard]] std::uint64_t id(std::uint32_t s) const { return keys[s].load(std::memory_order_relaxed); }
    void clear(std::uint32_t s) { keys[s].store(kNoKey, std::memory_order_relaxed); }
    void put(std::uint32_t s, const Line& from, std::uint32_t t) {
      keys[s].store(from.keys[t].load(std::memory_order_relaxed), std::memory_order_relaxed);
      sets[s].store(from.sets[t].load(std::memory_order_relaxed), std::memory_order_relaxed);
      uses[s].store(from.uses[t].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  };
  static constexpr std::uint64_t kNoKey = 0;
  static constexpr std::uint64_t kDeadKey = 1;
  static constexpr std::uint32_t kDead = 1U << 31;
  using Lines = SegmentedLines<Line, true, 1024>;

 public:
  static constexpr std::uint32_t kNoWorkers = 0;

  /// An entry, or the place for one.
  class Place {
   public:
    Place() = default;
    [[nodiscard]] bool found() const { return found_; }
    [[nodiscard]] std::uint32_t set() const { return line_->sets[slot_].load(std::memory_order_acquire); }
    [[nodiscard]] BlockUse use() const { return BlockUse(line_->uses[slot_].load(std::memory_order_relaxed)); }
    /// A reader's: it was of use now. One try: whoever else changes it meanwhile is as right.
    void refresh_shared(std::uint16_t tick) const {
      std::uint32_t bits = line_->uses[slot_].load(std::memory_order_relaxed);
      if ((bits & kDead) != 0 || BlockUse(bits).tick() == tick) return;
      line_->uses[slot_].compare_exchange_strong(bits, BlockUse(bits).at(tick).bits(), std::memory_order_relaxed);
    }
    /// The same by the writer itself while no reader is at work.
    void refresh(std::uint16_t tick) const {
      if (use().tick() != tick) set_use(use().at(tick));
    }
    void set_use(BlockUse use) const { line_->uses[slot_].store(use.bits(), std::memory_order_relaxed); }
    void set_set(std::uint32_t set) const { line_->sets[slot_].store(set, std::memory_order_release); }

   private:
    friend class KeyTable;
    Line* line_ = nullptr;
    std::uint32_t slot_ = 0;
    std::uint32_t number_ = 0;  // of the segment, of a place from find_or_place()
    bool found_ = false;
    bool fresh_ = false;  // a slot that was never used
  };

  /// A search whose memory is being fetched. Valid as long as the table is not changed by the same thread, for readers
  /// until the end of their epoch.
  class Probe {
   public:
    Probe() = default;
    Probe(const KeyTable& table, std::uint64_t key)
        : key_(key), segment_(table.lines_.segment(spread(key))), line_(segment_.home(spread(key))) {
      if (segment_.lines != nullptr) __builtin_prefetch(segment_.lines + line_);
    }
    /// The entry; found() is false where there is none.
    [[nodiscard]] Place find() const {
      Place place;
      if (segment_.lines == nullptr) return place;
      for (std::uint32_t i = line_;; i = segment_.next(i)) {
        Line& line = segment_.lines[i];
        const std::uint64_t here[] = {
            line.keys[0].load(std::memory_order_acquire), line.keys[1].load(std::memory_order_acquire),
            line.keys[2].load(std::memory_order_acquire), line.keys[3].load(std::memory_order_acquire)};
        const std::uint32_t equal = Lines::slots_where([&](std::uint32_t s) { return here[s] == key_; });
        if (equal != 0) {
          place.line_ = &line;
          place.slot_ = static_cast<std::uint32_t>(std::countr_zero(equal));
          place.found_ = true;
          return place;
        }
        if (Lines::slots_where([&](std::uint32_t s) { return here[s] == kNoKey; }) != 0) return place;
      }
    }

   private:
    std::uint64_t key_ = 0;
    Lines::Segment segment_;
    std::uint32_t line_ = 0;
  };

  KeyTable(IndexMemory& memory, Epochs& epochs) : epochs_(epochs), lines_(memory) {}

  /// The two values that mean something else here stand for others, which nobody will miss: a key is a hash.
  [[nodiscard]] static std::uint64_t valid(std::uint64_t key) { return key > kDeadKey ? key : key + 2; }

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  void prefetch(std::uint64_t key) const { lines_.prefetch(spread(key)); }
  [[nodiscard]] Place find(std::uint64_t key) const { return Probe(*this, key).find(); }
  /// The entry, or else the place where put() puts it.
  [[nodiscard]] Place find_or_place(std::uint64_t key);
  /// Puts an entry where find_or_place() found none.
  void put(const Place& place, std::uint64_t key, std::uint32_t set, BlockUse use);
  /// Takes an entry out; the table may move.
  void erase(const Place& place, std::uint64_t key);
  /// The uses of entries near a point of the table, for samples: calls visit(key, use) for each.
  template <class Visit>
  void visit_near(std::uint64_t hash, Visit visit) const {
    const Lines::Segment segment = lines_.segment(hash);
    if (segment.lines == nullptr) return;
    const Line& line = segment.lines[segment.home(hash)];
    for (std::uint32_t s = 0; s < Lines::kSlots; ++s) {
      if (line.live(s)) visit(line.id(s), BlockUse(line.uses[s].load(std::memory_order_relaxed)));
    }
  }

  /// What one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return lines_.growth_bytes(); }

 private:
  [[nodiscard]] bool may_reuse(const Line& line, std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t bury(Line& line) const;

  Epochs& epochs_;
  Lines lines_;
};

}  // namespace kvist::routing
