// How valuable a block of the KV index is: what eviction goes by.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kvist::kv_index {

/// When a block was last of use and how deep it lies in its prefix, in 31 bits. Time is counted in ticks of the index:
/// one passes for each 64th part of its blocks that is stored anew.
///
/// Ages never fall along a prefix: a look-up refreshes a block together with all blocks before it, and a new block is
/// at most as fresh as its parent. Among blocks of one age the deeper is worth less. So whatever is evicted, a prefix
/// loses its end and not its head.
class BlockUse {
 public:
  static constexpr std::uint32_t kMaxDepth = (1U << 14) - 1;  ///< deeper blocks count as this deep

  BlockUse() = default;
  BlockUse(std::uint16_t tick, std::uint32_t depth) : bits_(tick | std::min(depth, kMaxDepth) << 16) {}
  explicit BlockUse(std::uint32_t bits) : bits_(bits) {}

  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  [[nodiscard]] std::uint16_t tick() const { return static_cast<std::uint16_t>(bits_); }
  [[nodiscard]] std::uint32_t depth() const { return bits_ >> 16; }
  /// Ticks since it was of use. They are counted in 16 bits: what was of no use for a thousand times as long as it
  /// takes to fill the index anew may look fresh again.
  [[nodiscard]] std::uint16_t age(std::uint16_t now) const { return static_cast<std::uint16_t>(now - tick()); }
  [[nodiscard]] BlockUse at(std::uint16_t tick) const { return BlockUse((bits_ & 0xffff'0000U) | tick); }
  /// As fresh, of the block behind.
  [[nodiscard]] BlockUse deeper() const { return BlockUse(bits_ + (bits_ < kMaxDepth << 16 ? 1U << 16 : 0)); }

  /// The greater, the sooner it goes: by age, then by depth, then by the accident of its key, which tells blocks apart
  /// that are as old and as deep as each other and so never in one prefix.
  [[nodiscard]] std::uint64_t uselessness(std::uint16_t now, std::uint64_t key) const {
    const std::uint64_t accident = depth() == kMaxDepth ? 0 : (key >> 32) & 0xffff;
    return std::uint64_t{age(now)} << 48 | std::uint64_t{depth()} << 16 | accident;
  }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace kvist::kv_index
