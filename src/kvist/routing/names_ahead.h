// What a batch of events will touch in a worker's tables, fetched before its turn comes.
#pragma once

#include <array>
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
    for (std::size_t i = 0; i < 2 * kBlocks; ++i) step();
  }

  /// So many blocks are taken in or refused.
  void pass(std::size_t blocks) {
    for (std::size_t i = 0; i < blocks && !behind_all(); ++i) step();
  }
  void pass_one() { step(); }

 private:
  static constexpr std::size_t kBlocks = 8;  // of that many names tags are on their way, of as many entries
  static constexpr std::size_t kEvents = 8;  // that many events are, before their names

  [[nodiscard]] static std::span<const kv::ExternalHash> hashes_of(const kv::KvEvent& event) {
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) return stored->hashes;
    if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) return removed->hashes;
    return {};
  }
  static void fetch_content(const kv::KvEvent& event) {
    __builtin_prefetch(hashes_of(event).data());
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) __builtin_prefetch(stored->tokens.data());
  }

  [[nodiscard]] bool behind_all() const { return next_ == end_ && event_ == events_.size(); }
  // One name more, if there is one.
  void step() {
    if (next_ == end_ && !enter_next()) [[unlikely]] {
      names_.prefetch_entry(asked_[steps_++ % kBlocks]);
      return;
    }
    const NameDigest name((next_++)->value());
    ask(name);
    if (!further_copies_.empty()) [[unlikely]]
      static_cast<void>(further_copies_.prefetch_ahead(name));
  }
  void ask(NameDigest name) {
    NameTable::Ahead& turn = asked_[steps_++ % kBlocks];
    names_.prefetch_entry(turn);
    turn = names_.prefetch_ahead(name);
  }
  bool enter_next() {
    while (next_ == end_) {
      if (event_ == events_.size()) return false;
      const kv::KvEvent& event = events_[event_++];
      if (event_ - 1 + kEvents < events_.size()) fetch_content(events_[event_ - 1 + kEvents]);
      const std::span<const kv::ExternalHash> hashes = hashes_of(event);
      next_ = hashes.data();
      end_ = next_ + hashes.size();
      const auto* const stored = std::get_if<kv::BlockStored>(&event);
      if (stored != nullptr && stored->parent) ask(NameDigest(stored->parent->value()));
    }
    return true;
  }

  const NameTable& names_;
  const NameTable& further_copies_;
  std::span<const kv::KvEvent> events_;
  std::size_t event_ = 0;                   // the next to enter
  const kv::ExternalHash* next_ = nullptr;  // to fetch
  const kv::ExternalHash* end_ = nullptr;
  std::array<NameTable::Ahead, kBlocks> asked_ = {};  // whose tags are on their way
  std::size_t steps_ = 0;
};

}  // namespace kvist::routing
