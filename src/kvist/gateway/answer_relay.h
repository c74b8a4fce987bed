// What passes from a worker's stream to the client, and what the gateway learns on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/net/sse.h"
#include "kvist/openai/types.h"

namespace kvist::gateway {

/// What a stream has said so far.
struct StreamState {
  bool first_token = false;  ///< a chunk with text, or with the reason of the end
  std::uint64_t tokens = 0;  ///< at least so many: chunks from the first token on
  std::optional<openai::Usage> usage;
  std::optional<std::string> error;  ///< message of an error frame
  int error_status = 0;              ///< its code, where it has a number
  bool finished = false;             ///< a choice gave the reason of its end
  bool done = false;                 ///< [DONE] came
  std::uint64_t unreadable = 0;      ///< chunks that were looked into and are no chunk of this API
  std::string fingerprint;           ///< of the chunk with usage alone, where it was left out

  /// The error is the server's and not the request's.
  [[nodiscard]] bool server_failed() const { return error && (error_status < 400 || error_status >= 500); }
  /// It said how it ends. A stream that does not was broken off, however orderly its connection ended.
  [[nodiscard]] bool has_end() const { return done || finished || usage || error; }
};

/// Forwards each complete event as the bytes it came in, and leaves out the chunk with usage alone when the client did
/// not ask for it. An event is held back only until it is complete, so a stream that breaks never leaves half an event
/// with the client. Only chunks that can matter are parsed: those before the first token and those that mention usage,
/// the reason of the end or an error. Pure; one per stream.
///
/// vLLM puts its system_fingerprint into the chunk with usage alone, or, where none was asked for, into those that end
/// a choice. When the first is left out, the second get it: at once where the worker's fingerprint is known, otherwise
/// the chunk waits for the event behind it.
class AnswerRelay {
 public:
  /// `fingerprint`: of the worker, empty if it is not known. Matters only where usage is not wanted.
  explicit AnswerRelay(bool usage_wanted, std::string fingerprint = {})
      : usage_wanted_(usage_wanted), fingerprint_(std::move(fingerprint)) {}

  /// Takes bytes in and appends what is to be forwarded to `out`. kCorrupt where an event is larger than any bound.
  [[nodiscard]] Result<void> feed(std::string_view bytes, std::string& out);
  /// Appends the event that waits for the one behind it: none will come.
  void release(std::string& out);
  /// Bytes after the last complete event, once the stream has ended.
  [[nodiscard]] std::string_view rest() const { return parser_.rest(); }
  [[nodiscard]] const StreamState& state() const { return state_; }

 private:
  enum class Fate : std::uint8_t { kForward, kStamp, kHold, kDrop };
  [[nodiscard]] Fate inspect(std::string_view data);

  net::SseParser parser_;
  bool usage_wanted_;
  std::string fingerprint_;
  std::string held_;  // an event that ends a choice
  StreamState state_;
};

}  // namespace kvist::gateway
