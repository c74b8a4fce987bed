// The messages between load, gateway and workers: the content of the live system's HTTP messages, without their
// encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/workload/turn_source.h"

namespace kvist::simulation {

/// The id of a turn under way, which the client assigns like the X-Request-Id of the live system; also the request's id
/// in the engine. The upper bits count requests from 1, the lower ones are the turn's slot in TurnTable.
using TurnId = Id<struct TurnTag, std::uint64_t>;
inline constexpr unsigned kPlaceBits = 24;
[[nodiscard]] constexpr TurnId make_turn_id(std::uint64_t number, std::uint32_t place) {
  return TurnId(number << kPlaceBits | place);
}
[[nodiscard]] constexpr std::uint32_t place_of(TurnId turn) {
  return static_cast<std::uint32_t>(turn.value() & ((1U << kPlaceBits) - 1));
}

/// What a gateway makes of a request's messages.
struct Prompt {
  std::uint32_t named_tokens = 0;  ///< see engine::Request
  std::vector<TokenId> tokens;     ///< behind them
  std::shared_ptr<const std::vector<kv::BlockHash>> blocks;

  [[nodiscard]] std::uint32_t size() const { return named_tokens + static_cast<std::uint32_t>(tokens.size()); }
};

/// Client to gateway: POST /v1/chat/completions.
struct TurnRequest {
  TurnId id;
  workload::StartTurn turn;
  std::optional<Prompt> prompt = {};  ///< if it has been made before its instant
};

/// What one gateway tells another, as bytes (peering/message_codec.h).
struct PeerMessage {
  std::size_t gateway = 0;  ///< the number of the one that hears it
  std::shared_ptr<const std::string> bytes;
};

/// The head of an answer, as in the gateway's headers.
struct AnswerHead {
  TurnId turn;
  WorkerId worker;
  std::uint32_t predicted_cached_tokens = 0;
};

/// An error: as the whole answer, or as a frame in a stream that had begun.
struct Refusal {
  TurnId turn;
  Error error;
  std::optional<AnswerHead> head = {};  ///< set if a worker was involved
  WorkerId worker = {};                 ///< the one that refused, on the way to the gateway
};

/// The result of one step for one answer: its text, and at the end its usage. An answer that was in the worker's run
/// has the text of the run before that.
struct Piece {
  TurnId turn;
  std::uint32_t text_begin = 0;  ///< in StepMessage::text
  std::uint32_t run_bytes = 0;   ///< of the content chunks that came while it was in the run
  std::uint32_t text_bytes = 0;  ///< of this step's content chunk, behind them; 0: none
  bool is_last = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t completion_tokens = 0;
};

/// The results of one step, on the way from the worker to the gateway and to the client. They are one event instead of
/// one per token. Pieces are in the order in which the worker writes them.
///
/// Answers that only go on have no piece: they are in the worker's run (engine/core.h, StepOutputs) from the message
/// that has them in `joined` until the one that has them in `left`, and get one content chunk with each message whose
/// `in_run` is not 0. Its text comes when they have left. Those that leave do so before anything else happens, and
/// those that join have a chunk of this message.
struct StepMessage {
  WorkerId worker;
  std::uint32_t in_run = 0;  ///< answers in the run
  std::vector<TurnId> joined;
  std::vector<TurnId> left;
  std::vector<Piece> pieces;
  std::string text;
  std::vector<AnswerHead> heads;  ///< of answers that begin with it; the gateway adds them

  /// Empties it; its memory stays.
  void clear() {
    in_run = 0;
    joined.clear();
    left.clear();
    pieces.clear();
    text.clear();
    heads.clear();
  }
  [[nodiscard]] std::string_view text_of(const Piece& piece) const {
    return std::string_view(text).substr(piece.text_begin, std::size_t{piece.run_bytes} + piece.text_bytes);
  }
};

}  // namespace kvist::simulation
