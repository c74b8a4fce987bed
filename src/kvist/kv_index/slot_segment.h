// One segment of the index's hash tables: cache lines of entries.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvist::kv_index {

/// Open addressing in cache lines: a search nearly always needs one, which holds all that it has to know, and so one
/// fetch from afar. An entry whose line is full goes on to the next; each line counts the entries that went on past
/// it, and a search ends at a line that none has passed. Entries never move.
///
/// A view of memory that its owner allocates. Line: HashLine or HeadLine. Threads: the writer's; readers may use
/// find_shared().
template <class Line>
struct SlotSegment {
  using Hash = typename Line::Hash;

  Line* lines = nullptr;
  std::uint32_t count = 0;  // of lines

  /// Where an entry is, or where there is none.
  struct Place {
    Line* line = nullptr;
    std::uint32_t slot = 0;
  };
  /// Any entry with the hash is the one.
  struct Any {
    bool operator()(std::uint32_t) const { return true; }
  };

  [[nodiscard]] static std::size_t bytes(std::uint32_t lines) { return lines * sizeof(Line); }
  /// The line where entries with that hash belong: hashes in ascending order belong to lines in ascending order.
  [[nodiscard]] Line* home(Hash hash) const { return lines + ((std::uint64_t{Line::place_bits(hash)} * count) >> 32); }
  /// A search or a change that begins at a line comes, and the line is there: the one behind it is on its way too if it
  /// goes on to that one. Without a branch, of which one in six would go wrong.
  static void prefetch_next(const Line& line) { __builtin_prefetch(&line + (line.marks().leads_on() ? 1 : 0)); }
  template <class AnyLine>
  [[nodiscard]] AnyLine* next(AnyLine* line) const {
    return line + 1 == lines + count ? lines : line + 1;
  }

  /// The entry with this hash whose value accept(value) takes; none where there is none. Requires lines.
  template <class Accept = Any>
  [[nodiscard]] Place find(Hash hash, Accept accept = {}) const {
    Line* const first = home(hash);
    Line* line = first;
    do {
      const std::uint32_t found = accepted(*line, line->match(hash), accept);
      if (found != 0) return {line, slot_of(found)};
      if (line->marks().passed() == 0) break;
      line = next(line);
    } while (line != first);
    return {};
  }
  /// The value of such an entry, by a reader; 0: there is none.
  template <class Accept = Any>
  [[nodiscard]] std::uint32_t find_shared(Hash hash, Accept accept = {}) const {
    const Line* const first = home(hash);
    const Line* line = first;
    do {
      for (std::uint32_t found = line->match_shared(hash); found != 0; found &= found - 1) {
        const std::uint32_t value = line->value(slot_of(found));
        if (accept(value)) return value;
      }
      if (line->marks().passed() == 0) break;
      line = next(line);
    } while (line != first);
    return 0;
  }
  /// Of the slots that were found in a line, those from the first one on whose value is accepted.
  template <class Accept>
  [[nodiscard, gnu::always_inline]] static std::uint32_t accepted(const Line& line, std::uint32_t found,
                                                                  Accept accept) {
    while (found != 0 && !accept(line.value(slot_of(found)))) found &= found - 1;
    return found;
  }
  /// The first free slot from the entry's own line on. Requires one.
  [[nodiscard]] Place place_for(Hash hash) const {
    Line* line = home(hash);
    for (;; line = next(line)) {
      if (const std::uint32_t free = line->marks().free(); free != 0) return {line, slot_of(free)};
    }
  }
  /// Counts an entry that is in `line` with those that passed the lines from its own one to there, or no more.
  void count_passed(const Line* line, Hash hash, int by) const {
    for (Line* passed = home(hash); passed != line; passed = next(passed)) passed->marks().count_passed(by);
  }

  /// Calls visit(hash, value) for each entry.
  template <class Visit>
  [[gnu::always_inline]] void for_each(Visit visit) const {
    for (const Line* line = lines; line != lines + count; ++line) {
      for (std::uint32_t live = line->marks().live(); live != 0; live &= live - 1) {
        visit(line->hash(slot_of(live)), line->value(slot_of(live)));
      }
    }
  }

  /// The lowest of some slots.
  [[nodiscard]] static std::uint32_t slot_of(std::uint32_t slots) {
    return static_cast<std::uint32_t>(std::countr_zero(slots));
  }
};

/// A fresh segment that entries are copied into, while nobody else sees it. A line's slots are taken in order and none
/// is given free, so a count of them says where the next entry goes.
template <class Line>
class SegmentCopy {
 public:
  using Hash = typename Line::Hash;

  explicit SegmentCopy(SlotSegment<Line> segment) : segment_(segment), taken_(segment.count) {}

  [[gnu::always_inline]] void add(Hash hash, std::uint32_t value) {
    const auto home = static_cast<std::size_t>(segment_.home(hash) - segment_.lines);
    ++live_;
    if (taken_[home] == Line::kSlots) [[unlikely]]
      return add_beyond(hash, value, home);
    segment_.lines[home].write(taken_[home]++, hash, value);
  }
  /// After the last one.
  void finish() {
    for (std::uint32_t line = 0; line < segment_.count; ++line) segment_.lines[line].marks().add_first(taken_[line]);
  }
  [[nodiscard]] SlotSegment<Line> segment() const { return segment_; }
  [[nodiscard]] std::uint32_t live() const { return live_; }
  /// Of them, not in the line where they belong.
  [[nodiscard]] std::uint32_t displaced() const { return displaced_; }

 private:
  [[gnu::noinline]] void add_beyond(Hash hash, std::uint32_t value, std::size_t home) {
    ++displaced_;
    std::size_t line = home;
    while (taken_[line] == Line::kSlots) line = line + 1 == taken_.size() ? 0 : line + 1;
    segment_.lines[line].write(taken_[line]++, hash, value);
    segment_.count_passed(segment_.lines + line, hash, 1);
  }

  SlotSegment<Line> segment_;
  std::vector<std::uint32_t> taken_;  // slots, by line; of a type that may not alias everything
  std::uint32_t live_ = 0;
  std::uint32_t displaced_ = 0;
};

}  // namespace kvist::kv_index
