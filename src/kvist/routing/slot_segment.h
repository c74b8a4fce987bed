// One segment of the index's hash tables: cache lines of five entries.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/routing/hash_line.h"

namespace kvist::routing {

/// Open addressing in cache lines: a search nearly always needs one, which holds all that it has to know, and so one
/// fetch from afar. An entry whose line is full goes on to the next; each line counts the entries that went on past
/// it, and a search ends at a line that none has passed. Entries never move.
///
/// A view of memory that its owner allocates. Threads: the writer's; readers may use find_shared().
struct SlotSegment {
  HashLine* lines = nullptr;
  std::uint32_t count = 0;  // of lines

  /// Where an entry is, or where there is none.
  struct Place {
    HashLine* line = nullptr;
    std::uint32_t slot = 0;
  };

  [[nodiscard]] static std::size_t bytes(std::uint32_t lines) { return lines * sizeof(HashLine); }
  /// The line where entries with that hash belong, by the upper half of its bits: hashes in ascending order belong to
  /// lines in ascending order.
  [[nodiscard]] HashLine* home(std::uint64_t hash) const { return lines + (((hash >> 32) * count) >> 32); }
  /// A search or a change that begins at a line comes, and the line is there: the one behind it is on its way too if it
  /// goes on to that one. Without a branch, of which one in six would go wrong.
  static void prefetch_next(const HashLine& line) {
    __builtin_prefetch(&line + (line.passed() != 0 || line.free() == 0 ? 1 : 0));
  }
  [[nodiscard]] HashLine* next(HashLine* line) const { return line + 1 == lines + count ? lines : line + 1; }

  /// The entry with this hash; none where there is none. Requires lines.
  [[nodiscard]] Place find(std::uint64_t hash) const {
    return find(hash, [hash](const HashLine& line) { return line.match(hash); });
  }
  [[nodiscard]] Place find_shared(std::uint64_t hash) const {
    return find(hash, [hash](const HashLine& line) { return line.match_shared(hash); });
  }
  /// The first free slot from the entry's own line on. Requires one.
  [[nodiscard]] Place place_for(std::uint64_t hash) const {
    HashLine* line = home(hash);
    for (;; line = next(line)) {
      if (const std::uint32_t free = line->free(); free != 0) return {line, slot_of(free)};
    }
  }
  /// Counts an entry that is in `line` with those that passed the lines from its own one to there, or no more.
  void count_passed(const HashLine* line, std::uint64_t hash, int by) const {
    for (HashLine* passed = home(hash); passed != line; passed = next(passed)) passed->count_passed(by);
  }

  /// Calls visit(hash, value) for each entry.
  template <class Visit>
  [[gnu::always_inline]] void for_each(Visit visit) const {
    for (const HashLine* line = lines; line != lines + count; ++line) {
      for (std::uint32_t live = line->live(); live != 0; live &= live - 1) {
        visit(line->hash(slot_of(live)), line->value(slot_of(live)));
      }
    }
  }

  /// The lowest of some slots.
  [[nodiscard]] static std::uint32_t slot_of(std::uint32_t slots) {
    return static_cast<std::uint32_t>(std::countr_zero(slots));
  }

 private:
  template <class Match>
  [[nodiscard, gnu::always_inline]] Place find(std::uint64_t hash, Match match) const {
    HashLine* const first = home(hash);
    HashLine* line = first;
    do {
      if (const std::uint32_t found = match(*line); found != 0) return {line, slot_of(found)};
      if (line->passed() == 0) break;
      line = next(line);
    } while (line != first);
    return {};
  }
};

/// A fresh segment that entries are copied into, while nobody else sees it. A line's slots are taken in order and none
/// is given free, so a count of them says where the next entry goes.
class SegmentCopy {
 public:
  explicit SegmentCopy(SlotSegment segment) : segment_(segment), taken_(segment.count) {}

  [[gnu::always_inline]] void add(std::uint64_t hash, std::uint32_t value) {
    const auto home = static_cast<std::size_t>(segment_.home(hash) - segment_.lines);
    ++live_;
    if (taken_[home] == HashLine::kSlots) [[unlikely]]
      return add_beyond(hash, value, home);
    segment_.lines[home].put(taken_[home]++, hash, value);
  }
  [[nodiscard]] SlotSegment segment() const { return segment_; }
  [[nodiscard]] std::uint32_t live() const { return live_; }
  /// Of them, not in the line where they belong.
  [[nodiscard]] std::uint32_t displaced() const { return displaced_; }

 private:
  [[gnu::noinline]] void add_beyond(std::uint64_t hash, std::uint32_t value, std::size_t home) {
    ++displaced_;
    std::size_t line = home;
    while (taken_[line] == HashLine::kSlots) line = line + 1 == taken_.size() ? 0 : line + 1;
    segment_.lines[line].put(taken_[line]++, hash, value);
    segment_.count_passed(segment_.lines + line, hash, 1);
  }

  SlotSegment segment_;
  std::vector<std::uint32_t> taken_;  // slots, by line; of a type that may not alias everything
  std::uint32_t live_ = 0;
  std::uint32_t displaced_ = 0;
};

}  // namespace kvist::routing
