// What a chat completion's answer says, whole or as one chunk, as far as another API can say it. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/dialects/dialect.h"
#include "kvist/openai/types.h"

namespace kvist::dialects {

/// The most calls of tools in one answer.
inline constexpr std::uint32_t kMaxCalls = 1024;

/// A call of a tool or, in a stream, a part of it.
struct CallPart {
  std::uint32_t index = 0;  ///< of the call in the answer
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
};

/// Whether a part begins a call, when `next_call` is one more than the index of the last call, whose id is `last_id`.
/// Ollama gives all calls of a stream the index 0, each with an id of its own.
[[nodiscard]] bool begins_call(const CallPart& part, std::uint32_t next_call, std::string_view last_id);

struct ChatError {
  std::string message;
  int status = 0;  ///< its `code`, if it is a number; otherwise 0
};

/// One chunk of a stream, or the message of a whole answer. Only the first choice is read.
struct ChatPart {
  std::string id;
  std::string model;
  std::int64_t created = 0;  ///< Unix seconds
  std::string text;
  std::string reasoning;
  std::vector<CallPart> calls;
  std::string finish_reason;  ///< empty: none yet
  std::string stop;           ///< the stop string that ended the answer, where the server says so (vLLM)
  std::optional<openai::Usage> usage;
  std::optional<ChatError> error;
};

/// `json` is a chunk or a whole answer. Errors: kCorrupt.
[[nodiscard]] Result<ChatPart> read_chat_part(JsonDocument& document, std::string_view json);
/// What the translators of answers have in common: how a chat completion's answer is read, and that nothing follows its
/// end or an error. Threads: one.
class ChatAnswerTranslator : public AnswerTranslator {
 public:
  [[nodiscard]] Result<std::string> whole(std::string_view answer) final;
  [[nodiscard]] Result<void> on_event(std::string_view data, std::string& out) final;

 protected:
  /// The answer that is whole in this part.
  [[nodiscard]] virtual Result<std::string> whole_of(const ChatPart& part) = 0;
  /// One chunk of a stream. Appends the events that follow from it.
  [[nodiscard]] virtual Result<void> add_chunk(const ChatPart& part, std::string& out) = 0;

  bool ended_ = false;  // set by end() and on_error()

 private:
  JsonDocument document_;
};

/// What a client is told whose stream ended in order before any choice gave its reason: the answer was cut.
inline constexpr std::string_view kUnfinished = "the worker's answer ended without a finish_reason";

/// The error that a body says. A body that says none is the message itself, as far as it is short.
[[nodiscard]] ChatError read_chat_error(std::string_view body);
/// The id of another API's object that belongs to this answer: `prefix` and the id without its own prefix.
[[nodiscard]] std::string id_with(std::string_view prefix, std::string_view chat_id);
/// Appends an event with a name and data of one line.
void append_event(std::string& out, std::string_view name, std::string_view data);

}  // namespace kvist::dialects
