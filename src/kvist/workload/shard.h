// A part of a load that one thread drives.
#pragma once

#include <cstdint>

namespace kvist::workload {

/// Part `index` of `count`: the conversations whose ids leave this remainder. All parts together are the load, whatever
/// their number: the same conversations with the same texts and, in an open loop, at the same instants.
struct Shard {
  std::uint32_t index = 0;
  std::uint32_t count = 1;  ///< at least one; above `index`

  /// The part's share of a number. The shares of all parts are that number.
  template <class T>
  [[nodiscard]] T share(T of_all) const {
    return of_all / count + (index < of_all % count ? 1 : 0);
  }
  [[nodiscard]] bool has(std::uint64_t conversation) const { return conversation % count == index; }
};

}  // namespace kvist::workload
