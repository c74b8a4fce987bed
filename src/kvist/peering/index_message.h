// How one gateway hands a worker's part of its index to another, as values. docs/formats/peers.md has the form on the
// wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/stream_position.h"
#include "kvist/kv_index/block_piece.h"
#include "kvist/peering/message.h"

namespace kvist::peering {

/// A hand-over of one worker's part, as the asking gateway numbers it.
using TransferId = Id<struct TransferTag, std::uint64_t>;

/// Asks for what the other one knows of a worker.
struct AskPart {
  WorkerKey worker = {};
  std::uint32_t block_size = 0;
  kv::BlockHash root = {};  ///< root_hash() of the model without LoRA and salt: keys mean the same here and there
};
/// Asks for a piece of it, numbered from 0.
struct AskPiece {
  std::uint32_t number = 0;
};
/// No more will be asked for.
struct EndOfAsking {};

struct IndexRequest {
  std::string gateway;    ///< who asks
  std::uint64_t run = 0;  ///< of its process
  TransferId transfer = {};
  std::variant<AskPart, AskPiece, EndOfAsking> what = {};
};

/// Why a part is not to be had.
enum class PartRefusal : std::uint8_t {
  kUnknownWorker,
  kNotExact,   ///< it does not know the whole either
  kOtherKeys,  ///< another block size or model
  kBusy,       ///< it hands over to somebody else
  kChanged,    ///< what the worker holds changed meanwhile, or too much
  kUnknownTransfer,
};
inline constexpr std::size_t kPartRefusals = 6;
/// For metrics: "not_exact".
[[nodiscard]] std::string_view to_string(PartRefusal refusal);

/// What follows: the part is exact after that position of the worker's events.
struct PartHead {
  WorkerKey worker = {};
  kv::StreamPosition position = {};
  std::uint32_t blocks = 0;
  std::uint32_t pieces = 0;
};
struct NumberedPiece {
  std::uint32_t number = 0;
  kv_index::BlockPiece piece = {};
};

struct IndexAnswer {
  TransferId transfer = {};
  std::variant<PartRefusal, PartHead, NumberedPiece> what = {};
};

/// One worker's whole part, as it was received.
struct WorkerPart {
  PartHead head = {};
  std::vector<kv_index::BlockPiece> pieces = {};
};

inline constexpr std::size_t kMaxPieceBytes = std::size_t{512} << 10;  ///< of an answer
inline constexpr std::size_t kMaxAskBytes = 1'024;                     ///< of a request
inline constexpr std::uint32_t kMaxPartBlocks = 1U
                                                << 23;  ///< twice what an index keeps of a worker: with those between
inline constexpr std::uint32_t kMaxPieces = 8'192;

}  // namespace kvist::peering
