// APIs of other vendors that the gateway speaks: translated to chat completions, which every worker understands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::dialects {

/// An API, or an endpoint of it.
enum class Dialect : std::uint8_t {
  kMessages,     ///< Anthropic's: POST /v1/messages
  kCountTokens,  ///< Anthropic's: POST /v1/messages/count_tokens
  kResponses,    ///< OpenAI's: POST /v1/responses, without anything that would have to be stored
};

/// The most that is kept of one answer's text and calls of tools, in bytes. A longer stream is broken off.
inline constexpr std::size_t kMaxKeptBytes = 16UL << 20;

/// Turns the answer of one chat completion into the answer of another API. Threads: one.
class AnswerTranslator {
 public:
  virtual ~AnswerTranslator() = default;

  /// A whole answer. Errors: kCorrupt, it is none.
  [[nodiscard]] virtual Result<std::string> whole(std::string_view answer) = 0;
  /// Appends the events that follow from the data of one event of a stream, `[DONE]` included. An error frame becomes
  /// an error event, after which nothing follows. Errors: kCorrupt, it is no chunk of a chat; kTooLarge beyond
  /// kMaxKeptBytes. After an error nothing may follow but on_error().
  [[nodiscard]] virtual Result<void> on_event(std::string_view data, std::string& out) = 0;
  /// The stream has ended in order. Appends the last events, if they were not yet: those of an error if the answer did
  /// not say why it ends.
  virtual void end(std::string& out) = 0;
  /// Appends the event of an error that ends the stream.
  virtual void on_error(std::string_view message, std::string& out) = 0;
};

/// A request as every worker understands it, and what turns its answer back.
struct Translation {
  std::string_view path;  ///< of the worker's endpoint
  std::string body;
  std::unique_ptr<AnswerTranslator> answer;
};

/// Errors: kInvalidArgument with the field, its value and what would be right; kUnsupported for what changes the answer
/// and has no counterpart in chat completions.
[[nodiscard]] Result<Translation> translate(Dialect dialect, std::string_view body);

/// An error in the dialect's form, with its names of the fields. `openai_body` is an error in OpenAI's form, or any
/// text, of which a part becomes the message.
[[nodiscard]] std::string error_body(Dialect dialect, int status, std::string_view openai_body,
                                     std::string_view request_id);

}  // namespace kvist::dialects
