#include "kvist/gateway/prompt_reader.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <variant>

#include "kvist/kv/block_hash.h"
#include "kvist/net/local_time.h"
#include "kvist/openai/codec.h"
#include "kvist/routing/session_key.h"

namespace kvist::gateway {
namespace {

ReadRequest finished(openai::GenerationOptions options, PromptBlocks prompt, std::size_t prompts) {
  const std::uint64_t session = routing::session_key(options.session);
  return {.options = std::move(options),
          .profile = {.prompt_tokens = prompt.tokens,
                      .blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(prompt.blocks)),
                      .session = session},
          .prompts = prompts};
}

}  // namespace

Result<void> PromptReader::check_model(const std::string& model) const {
  if (model == model_) return {};
  return fail(ErrorCode::kNotFound,
              fmt::format("model: \"{}\" does not exist; this gateway serves \"{}\"", model, model_));
}

kv::BlockHash PromptReader::root_of(const openai::GenerationOptions& options) const {
  return kv::root_hash({.model = model_, .lora = "", .cache_salt = options.cache_salt});
}

PromptBlocks PromptReader::blocks_of(const std::vector<TokenId>& prompt, kv::BlockHash root) const {
  return {.tokens = static_cast<std::uint32_t>(prompt.size()), .blocks = kv::hash_blocks(root, prompt, block_size_)};
}

Result<PromptBlocks> PromptReader::blocks_of_chat(const openai::ChatRequest& request, kv::BlockHash root) const {
  const text::ChatInput input = openai::chat_input(request, net::local_time());
  if (!text_) return blocks_of(simple_template_.render(input, bytes_), root);
  KVIST_TRY(const text::RenderedPrompt prompt, text_->chat_template->render(input));
  return cache_.blocks_of(PromptKind::kChat, prompt, *text_->tokenizer, root, block_size_);
}

PromptBlocks PromptReader::blocks_of_completion(openai::Prompt prompt, kv::BlockHash root) const {
  if (const auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) return blocks_of(*tokens, root);
  std::string& text = std::get<std::string>(prompt);
  if (!text_) return blocks_of(tokens_of(text), root);
  return cache_.blocks_of(PromptKind::kCompletion, {.text = std::move(text), .from_messages = {}}, *text_->tokenizer,
                          root, block_size_);
}

std::vector<TokenId> PromptReader::tokens_of(std::string_view prompt) const {
  std::vector<TokenId> tokens;
  if (text_) {
    text_->tokenizer->encode_completion({.text = std::string(prompt), .from_messages = {}}, tokens);
  } else {
    bytes_.encode(prompt, tokens);
  }
  return tokens;
}

Result<std::vector<TokenId>> PromptReader::tokens_of(std::span<const text::ChatMessage> messages) const {
  if (!text_) return simple_template_.render(messages, bytes_);
  return text_->chat_template->tokens({.messages = messages, .now = net::local_time()}, *text_->tokenizer);
}

Result<ReadRequest> PromptReader::read(Api api, std::string_view body) const {
  if (api == Api::kChat) {
    KVIST_TRY(openai::ChatRequest request, openai::parse_chat_request(body, openai::ReadFor::kRouting));
    KVIST_TRY_VOID(check_model(request.options.model));
    KVIST_TRY(PromptBlocks prompt, blocks_of_chat(request, root_of(request.options)));
    return finished(std::move(request.options), std::move(prompt), 1);
  }
  KVIST_TRY(openai::CompletionRequest request, openai::parse_completion_request(body, openai::ReadFor::kRouting));
  KVIST_TRY_VOID(check_model(request.options.model));
  // Several prompts stay together on one worker; the first decides which.
  PromptBlocks prompt = blocks_of_completion(std::move(request.prompts.front()), root_of(request.options));
  return finished(std::move(request.options), std::move(prompt), request.prompts.size());
}

}  // namespace kvist::gateway
