// What a worker's names for blocks mean: the writer's side of the KV index.
#pragma once

#include <cstdint>

#include "kvist/routing/segmented_lines.h"

namespace kvist::routing {

/// 64-bit numbers by 64-bit numbers, 16 bytes per entry before the load factor (17/32 to 3/4). Any name is allowed;
/// the value 0 means: none. Threads: the writer's.
class NameTable {
 public:
  explicit NameTable(IndexMemory& memory) : lines_(memory) {}

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  [[nodiscard]] bool empty() const { return lines_.size() == 0; }

  /// 0 where there is none.
  [[nodiscard]] std::uint64_t find(std::uint64_t name) const;
  /// The value that the name had before, which it keeps; 0 where there was none and `value` (not 0) was put.
  std::uint64_t insert(std::uint64_t name, std::uint64_t value);
  /// Changes the value of a name that is there, to another than 0.
  void set(std::uint64_t name, std::uint64_t value);
  /// The value that the name had; 0 where there was none. `keep_shape`: see for_each_in().
  std::uint64_t erase(std::uint64_t name, bool keep_shape = false);
  void prefetch(std::uint64_t name) const { lines_.prefetch(spread(name)); }
  /// No entries and no memory.
  void clear() { lines_.clear(); }

  /// Entries lie in so many parts.
  [[nodiscard]] std::uint32_t parts() const { return lines_.segments(); }
  /// Calls visit(name, value) for each entry of a part. Entries erased with keep_shape between two parts leave the
  /// parts as they are; compact() then gives the memory back.
  template <class Visit>
  void for_each_in(std::uint32_t part, Visit visit) const {
    const auto segment = lines_.at(part);
    for (std::uint32_t i = 0; i < segment.count; ++i) {
      const Line& line = segment.lines[i];
      for (std::uint32_t s = 0; s < kSlots; ++s) {
        if (line.used(s)) visit(line.names[s], line.values[s]);
      }
    }
  }
  void compact() { lines_.compact(); }

  /// What one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return lines_.growth_bytes(); }

 private:
  struct alignas(IndexMemory::kAlignment) Line {
    std::uint64_t names[4];
    std::uint64_t values[4];

    [[nodiscard]] bool used(std::uint32_t s) const { return values[s] != 0; }
    [[nodiscard]] bool live(std::uint32_t s) const { return values[s] != 0; }
    [[nodiscard]] std::uint64_t id(std::uint32_t s) const { return names[s]; }
    void clear(std::uint32_t s) { values[s] = 0; }
    void put(std::uint32_t s, const Line& from, std::uint32_t t) {
      names[s] = from.names[t];
      values[s] = from.values[t];
    }
  };
  using Lines = SegmentedLines<Line, false, 384>;
  static constexpr std::uint32_t kSlots = Lines::kSlots;

  struct Place {
    Line* line = nullptr;
    std::uint32_t index = 0;  // of the line in its segment
    std::uint32_t slot = 0;   // of the entry, or an unused one where there is none
    bool found = false;
  };
  [[nodiscard]] static Place search(Lines::Segment segment, std::uint64_t hash, std::uint64_t name);

  Lines lines_;
};

}  // namespace kvist::routing
