#include "kvist/gateway/prompt_reader.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <variant>

#include "kvist/kv/block_hash.h"
#include "kvist/openai/codec.h"
#include "kvist/routing/session_key.h"

namespace kvist::gateway {

Result<void> PromptReader::check_model(const std::string& model) const {
  if (model == model_) return {};
  return fail(ErrorCode::kNotFound,
              fmt::format("model: \"{}\" does not exist; this gateway serves \"{}\"", model, model_));
}

Result<ReadRequest> PromptReader::read(Api api, std::string_view body) const {
  if (api == Api::kChat) {
    KVIST_TRY(openai::ChatRequest request, openai::parse_chat_request(body, openai::ReadFor::kRouting));
    KVIST_TRY_VOID(check_model(request.options.model));
    return finish(std::move(request.options), template_.render(request.messages, tokenizer_), 1);
  }
  KVIST_TRY(openai::CompletionRequest request, openai::parse_completion_request(body, openai::ReadFor::kRouting));
  KVIST_TRY_VOID(check_model(request.options.model));
  // Several prompts stay together on one worker; the first decides which.
  openai::Prompt& first = request.prompts.front();
  std::vector<TokenId> prompt;
  if (const auto* text = std::get_if<std::string>(&first)) {
    tokenizer_.encode(*text, prompt);
  } else {
    prompt = std::move(std::get<std::vector<TokenId>>(first));
  }
  return finish(std::move(request.options), prompt, request.prompts.size());
}

Result<ReadRequest> PromptReader::finish(openai::GenerationOptions options, const std::vector<TokenId>& prompt,
                                         std::size_t prompts) const {
  const kv::BlockHash root = kv::root_hash({.model = model_, .lora = "", .cache_salt = options.cache_salt});
  auto blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, prompt, block_size_));
  const std::uint64_t session = routing::session_key(options.session);
  return ReadRequest{.options = std::move(options),
                     .profile = {.prompt_tokens = static_cast<std::uint32_t>(prompt.size()),
                                 .blocks = std::move(blocks),
                                 .session = session},
                     .prompts = prompts};
}

}  // namespace kvist::gateway
