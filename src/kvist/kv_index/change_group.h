// Changes on their way into the KV index, so many at a time that the memory of all comes while each waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/holder_table.h"
#include "kvist/kv_index/name_table.h"

namespace kvist::kv_index {

/// Some blocks that are stored or removed at one worker, in order. They go through the stages together (group
/// prefetching: Chen, Ailamaki, Gibbons, Mowry, 2004): a stage asks for the memory that the next one reads, for all of
/// them, one right after the other. So their cache misses and, what costs as much, their misses of address translation
/// overlap, which a processor cannot do for fetches that have other work between them.
///
/// What a stage before the last one finds only tells where to look: the last one, which changes the tables, searches
/// again. Threads: the writer's.
struct ChangeGroup {
  static constexpr std::size_t kChanges = 64;

  struct Run;
  /// The block before an event's first one.
  struct Parent {
    NameTable::Ahead name;
    BlockRef block = 0;  // what its name meant before the group; 0: nothing
    // Where the group stores it:
    const Run* run = nullptr;
    std::uint32_t change = 0;
  };
  /// Blocks of one event that stores, or of events in a row that remove.
  struct Run {
    const kv::BlockStored* stored = nullptr;  // none: they are removed
    Parent* parent = nullptr;                 // none: the event has none, or does not begin here
    std::uint32_t block = 0;                  // the first one's number in the event
    std::uint32_t begin = 0;                  // changes
    std::uint32_t end = 0;
    std::uint32_t number = 0;      // the first one's likely number in a chunk
    std::uint64_t parent_key = 0;  // that its keys were made with

    [[nodiscard]] std::uint32_t size() const { return end - begin; }
    [[nodiscard]] bool begins() const { return block == 0; }
  };

  [[nodiscard]] bool empty() const { return run_count == 0; }
  [[nodiscard]] bool full() const { return size == kChanges || run_count == kChanges; }
  [[nodiscard]] std::span<const NameTable::Ahead> all_names() const { return std::span(names).first(size); }
  [[nodiscard]] std::span<Parent> all_parents() { return std::span(parents).first(parent_count); }
  [[nodiscard]] std::span<Run> all_runs() { return std::span(runs).first(run_count); }
  [[nodiscard]] std::span<kv::BlockHash> keys_of(const Run& run) {
    return std::span(keys).subspan(run.begin, run.size());
  }
  [[nodiscard]] std::span<BlockRef> blocks_of(const Run& run) {
    return std::span(blocks).subspan(run.begin, run.size());
  }
  [[nodiscard]] const Run* last_run() const { return run_count != 0 ? &runs[run_count - 1] : nullptr; }

  void begin_run(const kv::BlockStored* stored, std::size_t block, Parent* parent) {
    Run& run = runs[run_count++];
    run.stored = stored;
    run.parent = parent;
    run.block = static_cast<std::uint32_t>(block);
    run.begin = size;
    run.end = size;
  }
  /// To the last run.
  [[gnu::always_inline]] void add(const NameTable::Prefetcher& prefetcher, std::span<const kv::ExternalHash> added) {
    const std::uint16_t mark = number;
    NameTable::Ahead* ahead = &names[size];
    size += static_cast<std::uint32_t>(added.size());
    runs[run_count - 1].end = size;
    for (const kv::ExternalHash block : added) {
      const NameDigest name(block.value());
      prefetcher.prefetch(name, *ahead++);
      marks[name.bits() % kMarks] = mark;
    }
  }
  /// The last change of the group to a block of that name, with its run; none if there is none.
  struct Found {
    const Run* run = nullptr;
    std::uint32_t change = 0;
  };
  [[nodiscard]] Found find(NameDigest name) const {
    if (marks[name.bits() % kMarks] != number) [[likely]]
      return {};
    return search(name);
  }
  [[nodiscard]] Found search(NameDigest name) const {
    for (std::uint32_t i = run_count; i-- > 0;) {
      for (std::uint32_t j = runs[i].end; j-- > runs[i].begin;) {
        if (names[j].hash == name.bits()) return {.run = &runs[i], .change = j};
      }
    }
    return {};
  }
  /// Of the next run; `found` as find() says.
  [[gnu::always_inline]] Parent& add_parent(const NameTable::Prefetcher& prefetcher, NameDigest name, Found found) {
    Parent& parent = parents[parent_count++];
    prefetcher.prefetch(name, parent.name);
    parent.run = found.run;
    parent.change = found.change;
    return parent;
  }
  void clear() {
    size = 0;
    parent_count = 0;
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
  std::uint32_t size = 0;
  std::uint32_t parent_count = 0;
  std::uint32_t run_count = 0;
  std::uint32_t head_count = 0;
  std::array<NameTable::Ahead, kChanges> names;
  std::array<kv::BlockHash, kChanges> keys;  // of stored blocks
  // Of a removed block: what its name meant before the group. Of a stored one: where the last stage put it. 0: nothing.
  std::array<BlockRef, kChanges> blocks;
  std::array<Parent, kChanges> parents;
  std::array<Run, kChanges> runs;
  std::array<const HeadLine*, kChanges + 1> heads;  // with the place for the next
  std::array<std::uint16_t, kMarks> marks = {};     // by the digest of a name: the last group that changed one like it
};

}  // namespace kvist::kv_index
