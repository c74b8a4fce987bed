// Changes on their way into the KV index, so many at a time that the memory of all comes while each waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kvist/kv/kv_event.h"
#include "kvist/routing/holder_table.h"
#include "kvist/routing/name_table.h"

namespace kvist::routing {

/// Some blocks that are stored or removed at one worker, in order. They go through the stages together (group
/// prefetching: Chen, Ailamaki, Gibbons, Mowry, 2004): a stage asks for the memory that the next one reads, for all of
/// them, one right after the other. So their cache misses and, what costs as much, their misses of address translation
/// overlap, which a processor cannot do for fetches that have other work between them.
///
/// What a stage before the last one finds only tells where to look: the last one, which changes the tables, searches
/// again. Threads: the writer's.
struct ChangeGroup {
  static constexpr std::size_t kChanges = 64;

  struct Change {
    NameTable::Ahead name;
    HolderTable::Ahead key;  // of a removed block: what its name meant before the group
  };
  /// Blocks of one event that stores, or of events in a row that remove.
  struct Run {
    const kv::BlockStored* stored = nullptr;  // none: they are removed
    std::size_t block = 0;                    // the first one's number in the event
    std::size_t begin = 0;                    // changes
    std::size_t end = 0;
    NameTable::Ahead parent_name;  // where the event begins here and has a parent
    HolderTable::Ahead parent;     // without a hash: unknown

    [[nodiscard]] bool begins() const { return block == 0; }
  };

  [[nodiscard]] bool empty() const { return run_count == 0; }
  [[nodiscard]] bool full() const { return size == kChanges || run_count == kChanges; }
  [[nodiscard]] std::span<Run> all_runs() { return std::span(runs).first(run_count); }
  [[nodiscard]] std::span<Change> all_changes() { return std::span(changes).first(size); }
  [[nodiscard]] std::span<Change> of(const Run& run) {
    return std::span(changes).subspan(run.begin, run.end - run.begin);
  }
  Run& begin_run(const kv::BlockStored* stored, std::size_t block) {
    Run& run = runs[run_count++];
    run.stored = stored;
    run.block = block;
    run.begin = size;
    run.end = size;
    run.parent_name.shape = 0;
    run.parent.shape = 0;
    run.parent.hash = 0;
    return run;
  }
  void add(Run& run, NameTable& names, NameDigest name) {
    names.prefetch_ahead(name, changes[size++].name);
    run.end = size;
    changed[name.bits() % kMarks / 64] |= std::uint64_t{1} << (name.bits() % 64);
  }
  /// False only if no change of the group is to a block of that name.
  [[nodiscard]] bool may_change(NameDigest name) const {
    return (changed[name.bits() % kMarks / 64] >> (name.bits() % 64) & 1) != 0;
  }
  void clear() {
    size = 0;
    run_count = 0;
    changed.fill(0);
  }

  static constexpr std::size_t kMarks = 1024;
  std::array<Change, kChanges> changes;
  std::size_t size = 0;
  std::array<Run, kChanges> runs;
  std::size_t run_count = 0;
  std::array<std::uint64_t, kMarks / 64> changed = {};  // one bit per name, by its digest
};

}  // namespace kvist::routing
