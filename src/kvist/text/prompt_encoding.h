// How a prompt becomes tokens: what engines and requests decide beside its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/tokenizer/rendered_prompt.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// How an engine reads texts: engines of one model and one vocabulary differ in this. The defaults are those of Hugging
/// Face's libraries, and so of vLLM, SGLang and TensorRT-LLM.
struct PromptReading {
  /// Special tokens that users wrote into a chat, or into a completion's prompt, are special tokens. Otherwise text.
  bool specials_in_chats = true;
  bool specials_in_completions = true;
  /// The tokenizer's own frame (Tokenizer::completion_frame()) is put around, where the request does not say.
  bool frames_chats = false;
  bool frames_completions = true;

  static constexpr std::uint8_t kNumbers = 16;
  /// Below kNumbers; different readings have different ones, the default's is 0.
  [[nodiscard]] constexpr std::uint8_t number() const {
    return static_cast<std::uint8_t>((specials_in_chats ? 0 : 1) + (specials_in_completions ? 0 : 2) +
                                     (frames_chats ? 4 : 0) + (frames_completions ? 0 : 8));
  }
  [[nodiscard]] static constexpr PromptReading of_number(std::uint8_t number) {
    return {.specials_in_chats = (number & 1U) == 0,
            .specials_in_completions = (number & 2U) == 0,
            .frames_chats = (number & 4U) != 0,
            .frames_completions = (number & 8U) == 0};
  }

  bool operator==(const PromptReading&) const = default;
};

/// How many tokens of a prompt are kept, and which.
struct Truncation {
  std::uint32_t tokens = 0;
  /// Which end is kept, said by the request: then of all tokens. Otherwise the end of the text, within the frame.
  enum class Side : std::uint8_t { kDefault, kKeepLast, kKeepFirst } side = Side::kDefault;

  bool operator==(const Truncation&) const = default;
};

/// One prompt's way to tokens.
struct PromptEncoding {
  bool specials = true;  ///< special tokens are recognised in what came with the messages too
  bool framed = false;   ///< within Tokenizer::completion_frame()
  std::optional<Truncation> truncation = {};
};

/// The tokens of a prompt. `prompt` is changed: without its marks it needs no copy.
[[nodiscard]] std::vector<TokenId> encode_prompt(const tokenizer::Tokenizer& tokenizer,
                                                 tokenizer::RenderedPrompt prompt, const PromptEncoding& how);

/// Keeps the tokens of a prompt that was given as tokens: the last ones by default.
void truncate(std::vector<TokenId>& tokens, const std::optional<Truncation>& truncation);

/// A prompt that no template wrote: all of it came with the request.
[[nodiscard]] tokenizer::RenderedPrompt completion_prompt(std::string text);

}  // namespace kvist::text
