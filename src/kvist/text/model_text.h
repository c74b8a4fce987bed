// Tokenizer and chat template of a model's directory.
#pragma once

#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/text/jinja_chat_template.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// Tokenizer and chat template of a model, read from a directory in Hugging Face's layout:
///   tokenizer.json          the vocabulary
///   tokenizer_config.json   the special tokens' texts, the chat template (one, or named ones: "default", "tool_use")
///   chat_template.jinja     the chat template; it goes before the one in tokenizer_config.json. May be missing
///   generation_config.json, config.json   the tokens that end an answer; the first of the two that says so. May be
///                           missing: then eos_token of tokenizer_config.json alone ends it Immutable. Threads: any.
struct ModelText {
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;  ///< its end_tokens() are the model's
  std::unique_ptr<const JinjaChatTemplate>
      chat_template;  ///< for a model for completions only, one that refuses all chats

  /// Errors begin with the file's path and name the field, or the template's line and column.
  [[nodiscard]] static Result<ModelText> load(const std::string& directory);
};

}  // namespace kvist::text
