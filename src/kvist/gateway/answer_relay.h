// What passes from a worker's stream to the client, and what the gateway learns on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  bool done = false;                 ///< [DONE] came
  std::uint64_t unreadable = 0;      ///< chunks that were looked into and are no chunk of this API
};

/// Forwards each complete event as the bytes it came in, and leaves out the chunk with usage alone when the client did
/// not ask for it. An event is held back only until it is complete, so a stream that breaks never leaves half an event
/// with the client. Only chunks that can matter are parsed: those before the first token and those that mention usage
/// or an error. Pure; one per stream.
class AnswerRelay {
 public:
  explicit AnswerRelay(bool usage_wanted) : usage_wanted_(usage_wanted) {}

  /// Takes bytes in and appends what is to be forwarded to `out`. kCorrupt where an event is larger than any bound.
  [[nodiscard]] Result<void> feed(std::string_view bytes, std::string& out);
  /// Bytes after the last complete event, once the stream has ended.
  [[nodiscard]] std::string_view rest() const { return parser_.rest(); }
  [[nodiscard]] const StreamState& state() const { return state_; }

 private:
  /// Whether the event goes to the client.
  [[nodiscard]] bool inspect(std::string_view data);

  net::SseParser parser_;
  bool usage_wanted_;
  StreamState state_;
};

}  // namespace kvist::gateway
