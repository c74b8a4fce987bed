// A worker's part of an index in pieces, as it passes from one index to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv_index {

/// What a NameInPiece of no name says: the worker does not hold the block in device memory under the name of its place.
inline constexpr kv::ExternalHash kNoName{};

/// Some of one worker's blocks. All blocks of all pieces are numbered from 1 in their order, so that a parent has a
/// lower number than its children. A block that the worker does not hold is there if one that it holds lies behind it.
struct BlockPiece {
  /// Consecutive blocks of one prefix.
  struct Run {
    std::uint32_t parent = 0;  ///< the number of the block before the first; 0: at the start of a prompt
    std::uint32_t blocks = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  /// A name beside the one that a block has in `names`: in another medium, or a further one.
  struct FurtherName {
    std::uint32_t block = 0;
    kv::ExternalHash name = {};
    kv::Medium medium = kv::Medium::kDevice;
    std::uint32_t copies = 1;  ///< that are held under it; of the block's name in `names`: beside the first
    friend bool operator==(const FurtherName&, const FurtherName&) = default;
  };

  /// Of each list at most.
  static constexpr std::size_t kMostItems = 8'192;
  /// No engine holds a block as often.
  static constexpr std::uint32_t kMostCopies = 1U << 20;

  std::vector<Run> runs = {};
  std::vector<kv::BlockHash> keys = {};      ///< of the runs' blocks, one run after the other
  std::vector<kv::ExternalHash> names = {};  ///< one of each block, in device memory; or kNoName
  std::vector<FurtherName> further = {};     ///< of blocks of this piece or of earlier ones

  [[nodiscard]] bool empty() const { return runs.empty() && further.empty(); }
  friend bool operator==(const BlockPiece&, const BlockPiece&) = default;
};

}  // namespace kvist::kv_index
