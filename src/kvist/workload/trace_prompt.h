// From a trace's hash ids to text.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/workload/trace.h"

namespace kvist::workload {

/// Makes the prompts of a trace, in tokens of the byte-level tokenizer (a byte each) as everywhere in the workload:
///  - An id stands for `tokens_per_hash` bytes of prose, always the same under one seed, and no others': its first
///    bytes spell it. Another seed gives other texts, so that one run does not find the cache warmed by another.
///  - The text of the ids, one after the other, is laid over the whole prompt, and what the chat template puts before
///    and after the message is left out of it: the prompt has input_tokens tokens with the template (of
///    text::SimpleChatTemplate: 7 before, 12 after), and ids begin at multiples of tokens_per_hash. The least prompt is
///    the template and one byte; a shorter request becomes that long.
///  - Tokens that no id covers get text of this request alone; ids beyond the prompt's end are not looked at.
/// Below 24 tokens per hash the text of an id is letters without sense, and below 16 two ids may have equal texts.
/// Immutable; any thread may use it.
class TracePrompts {
 public:
  /// Requires tokens_per_hash >= 1.
  TracePrompts(std::uint64_t seed, std::uint32_t tokens_per_hash);

  /// The user message of a request; `index` is its place in the trace.
  [[nodiscard]] std::string message_of(const TraceRequest& request, std::uint64_t index) const;

 private:
  void append_block(std::uint64_t name, std::string& out) const;

  std::uint64_t seed_;
  std::size_t block_bytes_;
  std::string prose_;  // blocks are cut from it: drawing prose for each would cost a hundred times as much
  std::size_t template_before_ = 0;
  std::size_t template_after_ = 0;
};

}  // namespace kvist::workload
