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
    // Of a stored block: its key, and its likely number in a chunk.
    std::uint64_t key = 0;
    std::uint32_t number = 0;
    // Of a removed one: what its name meant before the group. Of a stored one: where the last stage put it. 0: nothing.
    BlockRef block = 0;
  };
  /// Blocks of one event that stores, or of events in a row that remove.
  struct Run {
    const kv::BlockStored* stored = nullptr;  // none: they are removed
    std::size_t block = 0;                    // the first one's number in the event
    std::size_t begin = 0;                    // changes
    std::size_t end = 0;
    // Where the event begins here and has a parent:
    NameTable::Ahead parent_name;
    const Change* parent_change = nullptr;  // that stores it in this group
    BlockRef parent = 0;                    // else what the name meant before the group; 0: nothing
    std::uint64_t parent_key = 0;           // that its keys were made with

    [[nodiscard]] bool begins() const { return block == 0; }
    [[nodiscard]] bool has_parent() const { return begins() && stored != nullptr && stored->parent.has_value(); }
  };

  [[nodiscard]] bool empty() const { return run_count == 0; }
  [[nodiscard]] bool full() const { return size == kChanges || run_count == kChanges; }
  [[nodiscard]] std::span<const Change> all_changes() const { return std::span(changes).first(size); }
  [[nodiscard]] std::span<Run> all_runs() { return std::span(runs).first(run_count); }
  [[nodiscard]] std::span<Change> of(const Run& run) {
    return std::span(changes).subspan(run.begin, run.end - run.begin);
  }
  Run& begin_run(const kv::BlockStored* stored, std::size_t block) {
    Run& run = runs[run_count++];
    run.stored = stored;
    run.block = block;
    run.begin = size;
    run.end = size;
    run.parent_change = nullptr;
    run.parent = 0;
    return run;
  }
  /// To the last run, which the caller ends.
  void add(NameTable& names, NameDigest name) {
    Change& change = changes[size++];
    names.prefetch(name, change.name);
    change.block = 0;
    marks[name.bits() % kMarks] = number;
  }
  /// The last change of the group to a block of that name, with its run; none if there is none.
  struct Found {
    const Run* run = nullptr;
    const Change* change = nullptr;
  };
  [[nodiscard]] Found find(NameDigest name) const {
    if (marks[name.bits() % kMarks] != number) [[likely]]
      return {};
    for (std::size_t i = run_count; i-- > 0;) {
      const Run& run = runs[i];
      for (std::size_t j = run.end; j-- > run.begin;) {
        if (changes[j].name.hash == name.bits()) return {.run = &run, .change = &changes[j]};
      }
    }
    return {};
  }
  void clear() {
    size = 0;
    run_count = 0;
    head_count = 0;
    ++number;
  }

  /// The line of a hash table where a chunk's first block is or will be.
  void add_head(const HeadLine* line) {
    heads[head_count] = line;
    head_count += line != nullptr ? 1 : 0;
  }
  [[nodiscard]] std::span<const HeadLine* const> all_heads() const { return std::span(heads).first(head_count); }

  static constexpr std::size_t kMarks = 2048;
  std::uint16_t number = 0;  // of the group, as far as 16 bits tell
  std::array<Change, kChanges> changes;
  std::size_t size = 0;
  std::array<Run, kChanges> runs;
  std::size_t run_count = 0;
  std::array<const HeadLine*, kChanges + 1> heads;  // with the place for the next
  std::size_t head_count = 0;
  std::array<std::uint16_t, kMarks> marks = {};  // by the digest of a name: the last group that changed one like it
};

}  // namespace kvist::routing
