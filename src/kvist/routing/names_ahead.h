// What a batch of events will touch in a worker's tables, fetched before its turn comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "kvist/kv/kv_event.h"
#include "kvist/routing/name_table.h"

namespace kvist::routing {

/// Walks along the blocks of a batch, some before the one that is taken in, across the ends of events: engines that
/// evict block by block send many events of one. Only has the processor fetch memory; what it finds means nothing.
/// Threads: the writer's, while the batch lives.
class NamesAhead {
 public:
  NamesAhead(const NameTable& names, const NameTable& further_copies, std::span<const kv::KvEvent> events)
      : names_(names), further_copies_(further_copies), events_(events) {
    for (std::size_t i = 0; i < kEvents && i < events.size(); ++i) fetch_content(events[i]);
  }

  /// The block with this number in the current event is next.
  void reach(std::size_t block) {
    while (fetched_ < passed_ + block + kBlocks && step()) {
    }
  }
  /// The event was taken in or refused.
  void end_event(const kv::KvEvent& event) { passed_ += hashes_of(event).size(); }

 private:
  static constexpr std::size_t kBlocks = 16;  // that many names are on their way
  static constexpr std::size_t kEvents = 8;   // that many events are, before their names

  [[nodiscard]] static std::span<const kv::ExternalHash> hashes_of(const kv::KvEvent& event) {
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) return stored->hashes;
    if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) return removed->hashes;
    return {};
  }
  static void fetch_content(const kv::KvEvent& event) {
    __builtin_prefetch(hashes_of(event).data());
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) __builtin_prefetch(stored->tokens.data());
  }

  // One name more; false behind the last.
  bool step() {
    while (block_ == hashes_.size()) {
      if (event_ == events_.size()) return false;
      enter(event_++);
    }
    const std::uint64_t name = hashes_[block_++].value();
    names_.prefetch(name);
    if (!further_copies_.empty()) further_copies_.prefetch(name);
    ++fetched_;
    return true;
  }
  void enter(std::size_t event) {
    if (event + kEvents < events_.size()) fetch_content(events_[event + kEvents]);
    hashes_ = hashes_of(events_[event]);
    block_ = 0;
    const auto* const stored = std::get_if<kv::BlockStored>(&events_[event]);
    if (stored != nullptr && stored->parent) names_.prefetch(stored->parent->value());
  }

  const NameTable& names_;
  const NameTable& further_copies_;
  std::span<const kv::KvEvent> events_;
  std::size_t event_ = 0;                     // the next to enter
  std::span<const kv::ExternalHash> hashes_;  // of the last one entered
  std::size_t block_ = 0;                     // of those the next to fetch
  std::size_t fetched_ = 0;                   // blocks since the batch began
  std::size_t passed_ = 0;                    // blocks of the events that ended
};

}  // namespace kvist::routing
