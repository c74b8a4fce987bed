// The client's measurement of one request, the raw sample from which all figures are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::workload {

enum class TurnOutcome : std::uint8_t {
  kSucceeded,
  kFailed,     ///< transport error, error status, error frame, broken stream, time-out
  kAbandoned,  ///< stopped by the client itself; neither success nor error
};

/// Times are instants of core time. They are zero for events that did not happen.
struct TurnSample {
  ConversationId conversation;
  std::uint32_t turn = 0;  ///< from 0
  /// What it belongs to, where that is not its conversation alone: requests of a trace that follow each other.
  std::optional<ConversationId> session = {};
  TurnOutcome outcome = TurnOutcome::kSucceeded;
  std::string error;   ///< why it failed
  std::string worker;  ///< x-kvist-worker, if the gateway sends it
  TimePoint intended;  ///< when it was due by the schedule
  TimePoint ready;   ///< since when nothing but the client kept it back: `intended`, or later if it waited for a place
  TimePoint handed;  ///< when the client had come to it and began to send, which may include to connect
  TimePoint sent;    ///< when the request was handed to the socket
  TimePoint first_token;  ///< first chunk with something generated
  TimePoint last_token;
  TimePoint ended;
  std::uint32_t prompt_tokens = 0;      ///< from usage
  std::uint32_t cached_tokens = 0;      ///< from usage
  std::uint32_t completion_tokens = 0;  ///< from usage
  std::uint32_t counted_tokens = 0;     ///< of the answer, by the client's own tokenizer; 0: not counted
  std::uint32_t chunks = 0;             ///< chunks with content
  std::optional<std::uint32_t> predicted_cached_tokens;  ///< x-kvist-predicted-cached-tokens
  std::vector<float> gaps_ms;                            ///< between successive content chunks: ITL; may be dropped

  // How exact the instants and counts above are. Only the process that measured knows this; results files do not have
  // it.
  float longest_send_ms = 0;     ///< `sent` may be so much too late
  std::uint32_t unstamped = 0;   ///< content chunks whose arrival the system did not tell
  bool reports_cached = false;   ///< usage had cached tokens: many servers leave them out, or where there are none
  std::vector<float> late_ms;    ///< of each content chunk: how long it had been in this machine before it was read,
                                 ///< at least; may be dropped
  std::vector<float> unsure_ms;  ///< of each content chunk: by how much more it may have been; empty: 0 for all

  [[nodiscard]] ConversationId session_or_conversation() const { return session.value_or(conversation); }
  [[nodiscard]] double ttft_ms() const { return to_milliseconds(first_token - sent); }
  [[nodiscard]] double latency_ms() const { return to_milliseconds(ended - sent); }
  /// Since it was due: what a user would see who came then, if the client was late or made it wait.
  [[nodiscard]] double ttft_from_schedule_ms() const { return to_milliseconds(first_token - intended); }
  [[nodiscard]] double latency_from_schedule_ms() const { return to_milliseconds(ended - intended); }
  /// Whether the server said how many tokens there were. If not, prompt and cached tokens are unknown.
  [[nodiscard]] bool has_usage() const { return prompt_tokens > 0 || completion_tokens > 0; }
  /// Tokens of the answer: by usage; without it as the client counted them, or one per content chunk.
  [[nodiscard]] std::uint32_t output_tokens() const {
    return completion_tokens > 0 ? completion_tokens : counted_tokens > 0 ? counted_tokens : chunks;
  }
  /// Several tokens came in one chunk: nobody knows how far apart they were.
  [[nodiscard]] bool hides_tpot() const { return chunks == 1 && output_tokens() > 1; }
  /// (last token - first token) / (tokens - 1); nothing with fewer than two tokens, or if all came in one chunk.
  [[nodiscard]] std::optional<double> tpot_ms() const {
    if (output_tokens() < 2 || hides_tpot()) return std::nullopt;
    return to_milliseconds(last_token - first_token) / (output_tokens() - 1);
  }
  /// The mean of the gaps between content chunks; nothing with fewer than two chunks. Does not need the gaps
  /// themselves.
  [[nodiscard]] std::optional<double> itl_ms() const {
    if (chunks < 2) return std::nullopt;
    return to_milliseconds(last_token - first_token) / (chunks - 1);
  }
};

}  // namespace kvist::workload
