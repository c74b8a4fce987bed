#include "kvist/peering/index_codec.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

#include "kvist/kv/event_sequencer.h"
#include "kvist/kv/msgpack.h"
#include "kvist/peering/message_items.h"

namespace kvist::peering {
namespace {

using kv::MsgpackWriter;
using kv_index::BlockPiece;

constexpr std::uint64_t kIndexVersion = 1;
constexpr std::size_t kRequestItems = 6;
constexpr std::size_t kAnswerItems = 4;

enum class Asked : std::uint8_t { kPart, kPiece, kEnd };
enum class Answered : std::uint8_t { kRefused, kHead, kPiece };

void begin_answer(MsgpackWriter& out, TransferId transfer, Answered tag) {
  out.array(kAnswerItems);
  out.unsigned_integer(kIndexVersion);
  out.unsigned_integer(transfer.value());
  out.unsigned_integer(static_cast<std::uint64_t>(tag));
}

// What a kind of request or answer has beside the items that all have.
class BodyWriter {
 public:
  explicit BodyWriter(MsgpackWriter& out) : out_(out) {}

  void operator()(const AskPart& ask) {
    out_.array(3);
    out_.unsigned_integer(ask.worker.value());
    out_.unsigned_integer(ask.block_size);
    out_.unsigned_integer(ask.root.value());
  }
  void operator()(const AskPiece& ask) {
    out_.array(1);
    out_.unsigned_integer(ask.number);
  }
  void operator()(const EndOfAsking& /*end*/) { out_.array(0); }
  void operator()(PartRefusal refusal) {
    out_.array(1);
    out_.unsigned_integer(static_cast<std::uint64_t>(refusal));
  }
  void operator()(const PartHead& head) {
    out_.array(6);
    out_.unsigned_integer(head.worker.value());
    out_.unsigned_integer(head.position.next);
    out_.boolean(head.position.counts_from_zero);
    out_.binary(little_endian(std::span(head.position.digests)));
    out_.unsigned_integer(head.blocks);
    out_.unsigned_integer(head.pieces);
  }

 private:
  MsgpackWriter& out_;
};

PartHead read_head(MessageItems& items) {
  PartHead head;
  items.array_of(6);
  head.worker = WorkerKey(items.number());
  head.position.next = items.number();
  head.position.counts_from_zero = items.boolean();
  items.numbers(kv::EventSequencer::kRememberedFrames, head.position.digests);
  head.blocks = items.number32(kMaxPartBlocks);
  head.pieces = items.number32(kMaxPieces);
  if (head.position.digests.size() > head.position.next) items.refuse();
  return head;
}

NumberedPiece read_piece(MessageItems& items) {
  NumberedPiece read;
  items.array_of(3);
  read.number = items.number32(kMaxPieces - 1);
  BlockPiece& piece = read.piece;
  const std::size_t runs = items.array(BlockPiece::kMostItems);
  for (std::size_t i = 0; i < runs && items.good(); ++i) {
    items.array_of(3);
    BlockPiece::Run run{.parent = items.number32(kMaxPartBlocks)};
    const std::size_t before = piece.keys.size();
    items.numbers(BlockPiece::kMostItems - before, piece.keys);
    items.numbers(BlockPiece::kMostItems - before, piece.names);
    run.blocks = static_cast<std::uint32_t>(piece.keys.size() - before);
    if (piece.names.size() != piece.keys.size()) items.refuse();
    piece.runs.push_back(run);
  }
  const std::size_t further = items.array(BlockPiece::kMostItems);
  for (std::size_t i = 0; i < further && items.good(); ++i) {
    items.array_of(4);
    BlockPiece::FurtherName name{.block = items.number32(kMaxPartBlocks)};
    name.name = kv::ExternalHash(items.number());
    name.medium = static_cast<kv::Medium>(items.number(static_cast<std::uint64_t>(kv::Medium::kRemote)));
    name.copies = items.number32(BlockPiece::kMostCopies);
    if (name.block == 0 || name.copies == 0) items.refuse();
    piece.further.push_back(name);
  }
  return read;
}

/// Nothing wrong with its size and its version: the error otherwise.
std::optional<Error> fault_of(MessageItems& items, std::size_t bytes, std::size_t most, std::size_t count) {
  if (bytes > most)
    return Error{ErrorCode::kTooLarge,
                 fmt::format("a message of a hand-over has at most {} bytes, not {}", most, bytes)};
  items.array_of(count);
  const std::uint64_t version = items.number();
  if (items.good() && version != kIndexVersion)
    return Error{ErrorCode::kUnsupported, fmt::format("version {} of hand-overs, expected {}", version, kIndexVersion)};
  return std::nullopt;
}

}  // namespace

std::string_view to_string(PartRefusal refusal) {
  switch (refusal) {
    case PartRefusal::kUnknownWorker:
      return "unknown_worker";
    case PartRefusal::kNotExact:
      return "not_exact";
    case PartRefusal::kOtherKeys:
      return "other_keys";
    case PartRefusal::kBusy:
      return "busy";
    case PartRefusal::kChanged:
      return "changed";
    case PartRefusal::kUnknownTransfer:
      break;
  }
  return "unknown_transfer";
}

std::string encode(const IndexRequest& request) {
  std::string bytes;
  MsgpackWriter out(bytes);
  out.array(kRequestItems);
  out.unsigned_integer(kIndexVersion);
  out.string(request.gateway);
  out.unsigned_integer(request.run);
  out.unsigned_integer(request.transfer.value());
  out.unsigned_integer(request.what.index());
  std::visit(BodyWriter(out), request.what);
  return bytes;
}

std::string encode(const IndexAnswer& answer) {
  if (const auto* const piece = std::get_if<NumberedPiece>(&answer.what))
    return encode_answer(answer.transfer, piece->number, encode_piece(piece->piece));
  std::string bytes;
  MsgpackWriter out(bytes);
  BodyWriter body(out);
  if (const auto* const head = std::get_if<PartHead>(&answer.what)) {
    begin_answer(out, answer.transfer, Answered::kHead);
    body(*head);
  } else {
    begin_answer(out, answer.transfer, Answered::kRefused);
    body(std::get<PartRefusal>(answer.what));
  }
  return bytes;
}

std::string encode_piece(const BlockPiece& piece) {
  std::string bytes;
  MsgpackWriter out(bytes);
  out.array(piece.runs.size());
  std::size_t at = 0;
  for (const BlockPiece::Run& run : piece.runs) {
    out.array(3);
    out.unsigned_integer(run.parent);
    out.binary(little_endian(std::span(piece.keys).subspan(at, run.blocks)));
    out.binary(little_endian(std::span(piece.names).subspan(at, run.blocks)));
    at += run.blocks;
  }
  out.array(piece.further.size());
  for (const BlockPiece::FurtherName& further : piece.further) {
    out.array(4);
    out.unsigned_integer(further.block);
    out.unsigned_integer(further.name.value());
    out.unsigned_integer(static_cast<std::uint64_t>(further.medium));
    out.unsigned_integer(further.copies);
  }
  return bytes;
}

std::string encode_answer(TransferId transfer, std::uint32_t number, const std::string& piece) {
  std::string bytes;
  MsgpackWriter out(bytes);
  begin_answer(out, transfer, Answered::kPiece);
  out.array(3);
  out.unsigned_integer(number);
  return bytes + piece;
}

Result<IndexRequest> decode_request(std::span<const std::uint8_t> bytes) {
  MessageItems items(bytes);
  if (auto fault = fault_of(items, bytes.size(), kMaxAskBytes, kRequestItems))
    return std::unexpected(*std::move(fault));
  IndexRequest request;
  request.gateway = items.name();
  request.run = items.number();
  request.transfer = TransferId(items.number());
  switch (static_cast<Asked>(items.number(static_cast<std::uint64_t>(Asked::kEnd)))) {
    case Asked::kPart: {
      items.array_of(3);
      AskPart ask{.worker = WorkerKey(items.number())};
      ask.block_size = items.number32();
      ask.root = kv::BlockHash(items.number());
      request.what = ask;
      break;
    }
    case Asked::kPiece:
      items.array_of(1);
      request.what = AskPiece{.number = items.number32(kMaxPieces - 1)};
      break;
    case Asked::kEnd:
      items.array_of(0);
      request.what = EndOfAsking();
      break;
  }
  if (!items.good() || !items.at_end()) return fail(ErrorCode::kCorrupt, "not a request for a part of an index");
  return request;
}

Result<IndexAnswer> decode_answer(std::span<const std::uint8_t> bytes) {
  MessageItems items(bytes);
  if (auto fault = fault_of(items, bytes.size(), kMaxPieceBytes, kAnswerItems))
    return std::unexpected(*std::move(fault));
  IndexAnswer answer{.transfer = TransferId(items.number())};
  switch (static_cast<Answered>(items.number(static_cast<std::uint64_t>(Answered::kPiece)))) {
    case Answered::kRefused:
      items.array_of(1);
      answer.what = static_cast<PartRefusal>(items.number(kPartRefusals - 1));
      break;
    case Answered::kHead:
      answer.what = read_head(items);
      break;
    case Answered::kPiece:
      answer.what = read_piece(items);
      break;
  }
  if (!items.good() || !items.at_end()) return fail(ErrorCode::kCorrupt, "not a part of an index");
  return answer;
}

}  // namespace kvist::peering
