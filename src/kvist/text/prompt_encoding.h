// How a prompt becomes tokens, apart from its text: choices of engines and requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/tokenizer/rendered_prompt.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// How an engine tokenizes texts, in which engines with the same model and vocabulary differ. The defaults are those of
/// Hugging Face's libraries, and so of vLLM, SGLang and TensorRT-LLM.
struct PromptReading {
  /// Whether special tokens that users write into a chat, or into a completion's prompt, are special tokens or text.
  bool specials_in_chats = true;
  bool specials_in_completions = true;
  /// Whether the tokenizer's frame (Tokenizer::completion_frame()) is put around, unless the request says so.
  bool frames_chats = false;
  bool frames_completions = true;

  static constexpr std::uint8_t kNumbers = 16;
  /// A number below kNumbers, different for different readings; the default's is 0.
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
  /// Which end of all tokens is kept, if the request says so. By default the end of the text is kept, within the frame.
  enum class Side : std::uint8_t { kDefault, kKeepLast, kKeepFirst } side = Side::kDefault;

  bool operator==(const Truncation&) const = default;
};

/// How one prompt is encoded.
struct PromptEncoding {
  bool specials = true;  ///< special tokens are also recognised in what came with the messages
  bool framed = false;   ///< within Tokenizer::completion_frame()
  std::optional<Truncation> truncation = {};
};

/// The tokens of a prompt. `prompt` may lose its marks, which saves a copy.
[[nodiscard]] std::vector<TokenId> encode_prompt(const tokenizer::Tokenizer& tokenizer,
                                                 tokenizer::RenderedPrompt prompt, const PromptEncoding& how);

/// Truncates a prompt that was given as tokens; by default the last ones are kept.
void truncate(std::vector<TokenId>& tokens, const std::optional<Truncation>& truncation);

/// A prompt without a template: all of it came with the request.
[[nodiscard]] tokenizer::RenderedPrompt completion_prompt(std::string text);

}  // namespace kvist::text
