// Stream chunks of one answer, written fast: the parts that never change are made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kvist/openai/codec.h"

namespace kvist::openai {

/// Appends the chunks of one answer to a buffer of the caller's. The same text as role_chunk(), text_chunk(),
/// finish_chunk() and usage_chunk(), without their allocations: what a worker uses per token. Owned by one answer.
class ChunkWriter {
 public:
  explicit ChunkWriter(const AnswerHead& head);

  /// The first chunk of a choice: the role with empty content. Requires a chat answer.
  void append_role(std::string& out, std::uint32_t index) const;
  void append_text(std::string& out, std::uint32_t index, std::string_view text) const;
  /// The same with the log probabilities of its tokens. `text_offset`: characters of the choice's text before it.
  void append_text(std::string& out, std::uint32_t index, std::string_view text,
                   std::span<const TokenLogprobs> logprobs, std::size_t text_offset) const;
  /// The beginning of a call: its id and name, with empty arguments. `call`: its place among the choice's calls.
  /// Requires a chat answer, as the next.
  void append_call(std::string& out, std::uint32_t index, std::size_t call, const text::ToolCall& begun) const;
  /// A part of a call's arguments.
  void append_arguments(std::string& out, std::uint32_t index, std::size_t call, std::string_view part) const;
  void append_finish(std::string& out, std::uint32_t index, std::string_view finish_reason) const;
  void append_usage(std::string& out, const Usage& usage) const;

  /// Into the chunk with a choice that `out` ends with. In this order, where there are several.
  /// `field` of the choice: "token_ids", and of completions "prompt_token_ids".
  static void add_to_choice(std::string& out, std::string_view field, std::span<const TokenId> tokens);
  /// The tokens of a chat's prompt, beside the choices.
  static void add_prompt_tokens(std::string& out, std::span<const TokenId> tokens);
  /// What the choice has used so far: the counts alone, as vLLM's continuous_usage_stats.
  static void add_usage(std::string& out, const Usage& usage);

 private:
  void open_choice(std::string& out, std::uint32_t index) const;

  std::string head_;  // {"id":...,"object":...,"created":...,"model":...,"choices":[
  bool chat_;
};

}  // namespace kvist::openai
