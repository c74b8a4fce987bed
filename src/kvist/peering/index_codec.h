// Hand-overs of the index as msgpack (docs/formats/peers.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/peering/index_message.h"

namespace kvist::peering {

[[nodiscard]] std::string encode(const IndexRequest& request);
[[nodiscard]] std::string encode(const IndexAnswer& answer);
/// A piece without the answer around it, so that it need not be written while the answer is due.
[[nodiscard]] std::string encode_piece(const kv_index::BlockPiece& piece);
/// The answer around a piece that encode_piece() wrote.
[[nodiscard]] std::string encode_answer(TransferId transfer, std::uint32_t number, const std::string& piece);

// Safe on any bytes: they allocate no more than a few times their number. Return kCorrupt or kUnsupported for what is
// not of this version. What was read is sound as far as one message shows: numbers of blocks that were not sent are
// refused by KvIndex::Import.
[[nodiscard]] Result<IndexRequest> decode_request(std::span<const std::uint8_t> bytes);
[[nodiscard]] Result<IndexAnswer> decode_answer(std::span<const std::uint8_t> bytes);

}  // namespace kvist::peering
