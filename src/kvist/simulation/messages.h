// What load, gateway and workers send each other: the content of the live system's HTTP messages, without their bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/workload/turn_source.h"

namespace kvist::simulation {

/// A turn under way, named by the client as the X-Request-Id of the live system; also the request's id in the engine.
/// The upper bits count requests from 1, the lower ones are the turn's place among those under way (TurnTable).
using TurnId = Id<struct TurnTag, std::uint64_t>;
inline constexpr unsigned kPlaceBits = 24;
[[nodiscard]] constexpr TurnId make_turn_id(std::uint64_t number, std::uint32_t place) {
  return TurnId(number << kPlaceBits | place);
}
[[nodiscard]] constexpr std::uint32_t place_of(TurnId turn) {
  return static_cast<std::uint32_t>(turn.value() & ((1U << kPlaceBits) - 1));
}

/// Client to gateway: POST /v1/chat/completions.
struct TurnRequest {
  TurnId id;
  workload::StartTurn turn;
};

/// The head of an answer, as the gateway's headers say it.
struct AnswerHead {
  TurnId turn;
  WorkerId worker;
  std::uint32_t predicted_cached_tokens = 0;
};

/// An answer that is an error: a whole one, or a frame in a stream that had begun.
struct Refusal {
  TurnId turn;
  Error error;
  std::optional<AnswerHead> head;  ///< where a worker was involved
};

/// What one step brought one answer: its text, and at the end its usage.
struct Piece {
  TurnId turn;
  std::uint32_t text_begin = 0;  ///< in StepMessage::text
  std::uint32_t text_bytes = 0;  ///< 0: no content chunk
  bool is_last = false;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t completion_tokens = 0;
};

/// All that one step brought, on its way from the worker to the gateway and on to the client: one event instead of one
/// per token. Pieces are in the order in which the worker writes them.
struct StepMessage {
  WorkerId worker;
  std::vector<Piece> pieces;
  std::string text;
  std::vector<AnswerHead> heads;  ///< of answers that begin with it; the gateway adds them

  [[nodiscard]] std::string_view text_of(const Piece& piece) const {
    return std::string_view(text).substr(piece.text_begin, piece.text_bytes);
  }
};

}  // namespace kvist::simulation
