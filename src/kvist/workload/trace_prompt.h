// Makes text from a trace's hash ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/text/chat.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// Makes the prompts of a trace. Tokens are those of the byte tokenizer, one per byte, as everywhere in the workload:
///  - An id stands for `tokens_per_hash` bytes of prose, the same for each seed, and different for each id because its
///    first bytes contain the id. Another seed gives other texts, so that a run does not find another run's blocks in
///    the cache.
///  - The texts of the ids, one after the other, cover the whole prompt including the chat template, whose part of them
///    is left out of the message. So the prompt has input_tokens tokens with the template (of text::SimpleChatTemplate:
///    7 before, 12 after), and ids begin at multiples of tokens_per_hash. The shortest prompt is the template and one
///    byte; a shorter request becomes that long.
///  - Tokens that no id covers get text of this request alone. Ids beyond the prompt's end are ignored.
/// Below 24 tokens per hash the text of an id is random letters, and below 16 two ids may have equal texts. Immutable.
/// Threads: any.
class TracePrompts {
 public:
  /// Requires: tokens_per_hash >= 1.
  TracePrompts(std::uint64_t seed, std::uint32_t tokens_per_hash);

  /// The user message of a request; `index` is its index in the trace.
  [[nodiscard]] std::string message_of(const TraceRequest& request, std::uint64_t index) const;
  /// The messages of a request that goes on where an earlier one was answered: that one's messages, the answer as it
  /// came, and a user message that makes the prompt as long as the record says and has the text of its ids. So this
  /// prompt begins with what an engine computed of prompt and answer, whatever it answered. Returns nothing if the
  /// request has no room for a message behind the answer.
  [[nodiscard]] std::optional<std::vector<text::ChatMessage>> continued(std::vector<text::ChatMessage> messages,
                                                                        std::string answer, const TraceRequest& request,
                                                                        std::uint64_t index) const;

 private:
  /// The text that the request's ids, and behind them text of its own, give for the prompt tokens [begin, end).
  [[nodiscard]] std::string text_between(const TraceRequest& request, std::uint64_t index, std::size_t begin,
                                         std::size_t end) const;
  void append_block(std::uint64_t name, std::string& out) const;

  std::uint64_t seed_;
  std::size_t block_bytes_;
  std::string prose_;  // blocks are cut from it, because generating prose for each would take a hundred times as long
  std::size_t template_before_ = 0;
  std::size_t template_after_ = 0;
  std::size_t template_between_ = 0;  // an answer's end to the next message's beginning
};

}  // namespace kvist::workload
