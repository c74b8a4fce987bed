// The files next to a tokenizer.json that describe a model's text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"

namespace kvist::tokenizer {

/// What tokenizer_config.json, chat_template.jinja, generation_config.json and config.json of a model's directory
/// contain about special tokens, chat templates and the tokens that end an answer. All files except the first may be
/// missing.
struct ModelConfig {
  /// Chat templates as in their files.
  struct ChatTemplates {
    std::string plain;      ///< empty: the model has none
    std::string for_tools;  ///< for conversations with tools, if the model has a template of its own for them
    std::string path;       ///< path of their file with the field's name, for error messages; empty: the model has none
  };

  std::vector<std::pair<std::string, std::string>> special_texts;  ///< {"bos_token", "<s>"}
  std::string end_token;                                           ///< eos_token of special_texts; empty: none
  ChatTemplates templates;
  std::vector<TokenId> end_tokens;  ///< ids from the first file that names any

  /// Errors begin with the file's path and name the field.
  [[nodiscard]] static Result<ModelConfig> load(const std::string& directory);
};

}  // namespace kvist::tokenizer
