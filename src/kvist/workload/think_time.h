// The pause of a user between an answer and the next message.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"
#include "kvist/base/random.h"
#include "kvist/base/time.h"

namespace kvist::workload {

/// A pause drawn uniformly between both ends from (run seed, conversation, turn), so it is the same in every run.
struct ThinkTime {
  Duration least{};
  Duration most{};  ///< at least `least`; 0: no pause
  /// In a closed loop a conversation gives its place back for the pause, so that as many requests are in flight as
  /// there are places, however many users think.
  bool frees_place = false;

  [[nodiscard]] bool is_none() const { return most <= Duration::zero(); }
  [[nodiscard]] Duration before(std::uint64_t run_seed, ConversationId conversation, std::uint32_t turn) const {
    RandomStream random(mix_seed({run_seed, seed_part("think time"), conversation.value(), turn}));
    return least + from_seconds(random.uniform() * to_seconds(most - least));
  }
};

}  // namespace kvist::workload
