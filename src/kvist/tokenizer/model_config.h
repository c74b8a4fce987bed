// What the files beside a tokenizer.json say of a model's text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"

namespace kvist::tokenizer {

/// What tokenizer_config.json, chat_template.jinja, generation_config.json and config.json of a model's directory say
/// about special tokens, chat templates and the tokens that end an answer. All but the first may be missing.
struct ModelConfig {
  /// Chat templates as their files have them.
  struct ChatTemplates {
    std::string plain;      ///< empty: the model has none
    std::string for_tools;  ///< of conversations with tools, where the model has one of its own
    std::string path;       ///< of their file, with the field's name: for error messages. Empty: the model has none
  };

  std::vector<std::pair<std::string, std::string>> special_texts;  ///< {"bos_token", "<s>"}
  std::string end_token;                                           ///< eos_token of special_texts; empty: none
  ChatTemplates templates;
  std::vector<TokenId> end_tokens;  ///< by id, of the first file that names any

  /// Errors begin with the file's path and name the field.
  [[nodiscard]] static Result<ModelConfig> load(const std::string& directory);
};

}  // namespace kvist::tokenizer
