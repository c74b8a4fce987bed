// One worker's part of an index, taken out of one and put into another, in slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kvist/base/id.h"
#include "kvist/kv_index/block_piece.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index {

/// Writes down what one worker holds: its names in all media with their copies, and the prefixes of its blocks. What
/// was adopted without an event is left out. Threads: the writer's; between two steps the index may be used, and
/// changed for other workers. Memory: some 40 bytes for each block of the worker.
class KvIndex::Export {
 public:
  /// Requires: the index outlives this object.
  Export(const KvIndex& index, WorkerId worker);
  ~Export();
  Export(Export&&) noexcept;
  Export& operator=(Export&&) = delete;

  enum class Step : std::uint8_t {
    kGoesOn,
    kDone,     ///< all was written before
    kChanged,  ///< what the worker holds has changed since the beginning: what was written is of no use
  };
  /// Does a bounded part of the work, about a millisecond, and puts what it wrote into `piece`, which may stay empty.
  [[nodiscard]] Step step(BlockPiece& piece);
  /// How many blocks were written.
  [[nodiscard]] std::uint32_t blocks() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

/// Puts the pieces of an Export in their order into an index, for a worker that has nothing there. Blocks that the
/// worker does not hold, but that others follow, count as held until the end. Pieces may be hostile: they are refused,
/// or make prefixes that no prompt has. Threads: the writer's, which may do other things between two pieces. If blocks
/// are evicted meanwhile, what would follow them is left out.
class KvIndex::Import {
 public:
  /// Requires: the index outlives this object, and nothing else changes what this worker holds; it holds nothing.
  Import(KvIndex& index, WorkerId worker);
  /// As finish().
  ~Import();
  Import(Import&&) noexcept;
  Import& operator=(Import&&) = delete;

  /// Returns the reason if the piece was refused: kMalformed, kConflict (a block has another prefix or another name),
  /// kCapacity or kMedium. Then some of it may be in the index, and the worker is to be cleared.
  [[nodiscard]] std::optional<Refusal> add(const BlockPiece& piece);
  /// Ends it: from here on only what the worker holds counts as held.
  void finish();
  /// How many blocks were left out.
  [[nodiscard]] std::size_t left_out() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace kvist::kv_index
