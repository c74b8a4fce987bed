// Relays a worker's stream to the client and extracts what the gateway needs of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/key_account.h"
#include "kvist/gateway/token_log.h"
#include "kvist/net/sse.h"
#include "kvist/openai/types.h"

namespace kvist::gateway {

/// What was read from a stream so far.
struct StreamState {
  bool first_token = false;      ///< a chunk with text or with a finish reason came
  std::uint64_t tokens = 0;      ///< a lower bound: the number of chunks from the first token on
  std::uint64_t text_bytes = 0;  ///< of generated text, with AnswerRelay::measure_text()
  std::optional<openai::Usage> usage;
  std::optional<std::string> error;  ///< message of an error frame
  int error_status = 0;              ///< the code of the error frame, if it is a number
  bool finished = false;             ///< a choice gave its finish reason
  bool done = false;                 ///< [DONE] came
  bool readable = false;             ///< a chunk of this API came
  std::uint64_t unreadable = 0;      ///< parsed chunks that are not chunks of this API
  std::string fingerprint;           ///< the system_fingerprint of the usage chunk, if that was left out

  /// As `tokens`, for workers whose chunks have several tokens each (speculation, several steps at once).
  [[nodiscard]] std::uint64_t least_tokens() const {
    const std::uint64_t by_text = text_bytes / kBytesPerToken;
    return by_text > tokens ? by_text : tokens;
  }
  /// Whether the error is one of the server and not of the request.
  [[nodiscard]] bool server_failed() const { return error && (error_status < 400 || error_status >= 500); }
  /// Whether the stream said how it ends. If it did not, it was broken off, even if the connection was closed in order.
  [[nodiscard]] bool has_end() const { return done || finished || usage || error; }
};

/// Forwards each complete event with its bytes unchanged, and leaves out the chunk with nothing but usage if the client
/// did not ask for it. An incomplete event is held back, so a stream that breaks never leaves half an event with the
/// client. To save time, only some chunks are parsed: those before the first token, and those that contain usage, a
/// finish reason or an error. One object per stream. Threads: one.
///
/// vLLM puts its system_fingerprint into the usage chunk, or, without one, into the chunks that end a choice. So when
/// the usage chunk is left out, the latter get the fingerprint: at once if the worker's fingerprint is known; otherwise
/// the chunk is held back until the next event has come.
class AnswerRelay {
 public:
  /// `fingerprint` is the worker's, empty if unknown. It is only used if usage is not wanted.
  explicit AnswerRelay(bool usage_wanted, std::string fingerprint = {})
      : usage_wanted_(usage_wanted), fingerprint_(std::move(fingerprint)) {}

  /// From here on StreamState::text_bytes counts.
  void measure_text() { measures_text_ = true; }

  /// Reads bytes and appends what is to be forwarded to `out`. Errors: kTooLarge, an event exceeds the bound. Then
  /// every later call fails too.
  [[nodiscard]] Result<void> feed(std::string_view bytes, std::string& out);
  /// Nearly every read of a stream is one event that gives a token and nothing else of interest. If `bytes` are, they
  /// are counted, and the result is the part to be forwarded, which is all except the note of a token. Otherwise the
  /// result is empty, nothing was done, and the caller has to feed() them.
  [[nodiscard]] std::string_view take_token(std::string_view bytes);
  /// The stream is resumable: notes of their tokens precede its groups of events. The notes are left out, and written
  /// into `log` when the whole group was forwarded. An incomplete group is held back, and so is what follows an error
  /// of the server. Requires: nothing was fed yet; `log` outlives this object.
  void expect_notes(TokenLog& log) { log_ = &log; }
  /// Whether the stream is complete and nothing of it is held back.
  [[nodiscard]] bool is_done() const { return state_.done && group_events_ == 0 && failed_.empty(); }
  /// Whether a part of a group is held back.
  [[nodiscard]] bool is_within_group() const { return group_events_ > 0; }
  /// Appends an error of the server and what followed it, because the answer does not go on elsewhere.
  void release_error(std::string& out);
  /// Appends the event that was held back, because no further one will come.
  void release(std::string& out);
  /// The bytes after the last complete event, when the stream has ended.
  [[nodiscard]] std::string_view rest() const { return parser_.rest(); }
  [[nodiscard]] const StreamState& state() const { return state_; }

 private:
  enum class Fate : std::uint8_t { kForward, kStamp, kHold, kDrop };
  [[nodiscard]] Fate inspect(std::string_view data);
  /// Takes the note off an event that begins a group.
  void take_note(std::string_view& raw);
  void forward(std::string_view raw, Fate fate, std::string& out);

  net::SseParser parser_;
  bool usage_wanted_;
  bool measures_text_ = false;
  std::string fingerprint_;
  std::string held_;  // an event that ends a choice and waits for the next event
  StreamState state_;
  TokenLog* log_ = nullptr;            // null: the stream is not resumable
  std::uint32_t group_events_ = 0;     // that are missing of the group
  std::string group_;                  // its events so far
  std::vector<TokenId> group_tokens_;  // its tokens
  std::string failed_;                 // an error of the server, and what follows it
};

}  // namespace kvist::gateway
