// Writes the stream chunks of one answer fast, because the constant parts are made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kvist/openai/codec.h"

namespace kvist::openai {

/// Appends the chunks of one answer to a buffer of the caller. The text is that of role_chunk(), text_chunk(),
/// finish_chunk() and usage_chunk(), without their allocations. Workers use it for every token. One object per answer.
class ChunkWriter {
 public:
  explicit ChunkWriter(const AnswerHead& head);

  /// The first chunk of a choice: the role with empty content. Requires: a chat answer.
  void append_role(std::string& out, std::uint32_t index) const;
  void append_text(std::string& out, std::uint32_t index, std::string_view text) const;
  /// Like the function above, with the log probabilities of the tokens. `text_offset` is the number of characters of
  /// the choice's text before this chunk.
  void append_text(std::string& out, std::uint32_t index, std::string_view text,
                   std::span<const TokenLogprobs> logprobs, std::size_t text_offset) const;
  /// The beginning of a call: its id and name, with empty arguments. `call` is its index among the choice's calls.
  /// Requires: a chat answer, also for the next function.
  void append_call(std::string& out, std::uint32_t index, std::size_t call, const text::ToolCall& begun) const;
  /// A part of a call's arguments.
  void append_arguments(std::string& out, std::uint32_t index, std::size_t call, std::string_view part) const;
  /// `stop` is the stop string that ended the answer, which vLLM's `stop_reason` names; without one it is left out.
  void append_finish(std::string& out, std::uint32_t index, std::string_view finish_reason,
                     std::string_view stop = {}) const;
  void append_usage(std::string& out, const Usage& usage) const;

  /// The functions below add to the chunk with a choice at the end of `out`. Requires: they are called in this order.
  /// `field` of the choice is "token_ids", or for completions "prompt_token_ids".
  static void add_to_choice(std::string& out, std::string_view field, std::span<const TokenId> tokens);
  /// The tokens of a chat's prompt, next to the choices.
  static void add_prompt_tokens(std::string& out, std::span<const TokenId> tokens);
  /// The usage of the choice so far, counts only, as with vLLM's continuous_usage_stats.
  static void add_usage(std::string& out, const Usage& usage);

 private:
  void open_choice(std::string& out, std::uint32_t index) const;

  std::string head_;  // {"id":...,"object":...,"created":...,"model":...,"choices":[
  bool chat_;
};

}  // namespace kvist::openai
