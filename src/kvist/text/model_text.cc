#include "kvist/text/model_text.h"

#include <utility>

#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/tokenizer/model_config.h"

namespace kvist::text {

Result<ModelText> ModelText::load(const std::string& directory) {
  KVIST_TRY(tokenizer::ModelConfig config, tokenizer::ModelConfig::load(directory));
  ModelText model;
  KVIST_TRY(model.tokenizer, tokenizer::load_tokenizer(directory + "/tokenizer.json", {.end_tokens = config.end_tokens,
                                                                                       .end_token = config.end_token}));
  if (config.templates.path.empty())
    config.templates.plain = "{{ raise_exception('the model has no chat template: use /v1/completions') }}";
  Result<JinjaChatTemplate> compiled =
      JinjaChatTemplate::compile(config.templates.plain, std::move(config.special_texts), config.templates.for_tools);
  if (!compiled) return std::unexpected(std::move(compiled).error().in(config.templates.path));
  model.chat_template = std::make_unique<const JinjaChatTemplate>(*std::move(compiled));
  return model;
}

}  // namespace kvist::text
