#include "kvist/gateway/prompt_reader.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "kvist/kv/block_hash.h"
#include "kvist/net/time_of_day.h"
#include "kvist/openai/codec.h"
#include "kvist/routing/session_key.h"

namespace kvist::gateway {
namespace {

using text::PromptEncoding;
using text::PromptReading;

/// Memory for more tokens than this is given back after each prompt.
constexpr std::size_t kKeptTokens = 64U << 10;

struct NumberedEncoding {
  std::uint8_t reading = 0;
  PromptEncoding how;
};

PromptEncoding encoding_of(Api api, const PromptReading& reading, const openai::PromptOptions& options,
                           std::uint32_t max_model_len) {
  const bool chat = api == Api::kChat;
  return {.specials = chat ? reading.specials_in_chats : reading.specials_in_completions,
          .framed = options.add_special_tokens.value_or(chat ? reading.frames_chats : reading.frames_completions),
          .truncation = openai::truncation_of(options, max_model_len)};
}

// The encoding of the main reading, then those that give this prompt other tokens. Whether marks make a difference is
// only found out if the readings treat them differently.
std::vector<NumberedEncoding> encodings_of(Api api, const tokenizer::RenderedPrompt& prompt,
                                           const openai::PromptOptions& options, const FleetReadings& fleet,
                                           const tokenizer::Tokenizer& tokenizer) {
  const PromptReading main = fleet.main();
  std::vector<NumberedEncoding> all = {{main.number(), encoding_of(api, main, options, fleet.max_model_len)}};
  std::optional<bool> marks_matter;
  for (std::uint8_t number = main.number() + 1; number < PromptReading::kNumbers; ++number) {
    if (!fleet.present.test(number)) continue;
    const PromptEncoding how = encoding_of(api, PromptReading::of_number(number), options, fleet.max_model_len);
    const PromptEncoding& first = all.front().how;
    bool differs = how.framed != first.framed;
    if (!differs && how.specials != first.specials) {
      if (!marks_matter) marks_matter = tokenizer.marks_matter(prompt);
      differs = *marks_matter;
    }
    if (differs) all.push_back({number, how});
  }
  return all;
}

routing::BlockKeys shared(std::vector<kv::BlockHash> blocks) {
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(blocks));
}

}  // namespace

Result<void> PromptReader::check_model(const std::string& model, const FleetReadings& fleet) const {
  if (model.empty() || model == model_ || fleet.is_alias(model) || fleet.has_adapter(model)) return {};
  return fail(ErrorCode::kNotFound,
              fmt::format("model: \"{}\" does not exist; this gateway serves \"{}\"", model, model_));
}

// Requires: check_model() found the model.
std::string_view PromptReader::adapter_of(const openai::GenerationOptions& options, const FleetReadings& fleet) const {
  const bool is_own = options.model.empty() || options.model == model_ || fleet.is_alias(options.model);
  return is_own ? std::string_view() : std::string_view(options.model);
}

kv::BlockHash PromptReader::root_of(const openai::GenerationOptions& options, const FleetReadings& fleet) const {
  const std::string_view adapter = adapter_of(options, fleet);
  if (adapter.empty() && options.cache_salt.empty()) return plain_root_;
  return kv::root_hash({.model = model_, .lora = adapter, .cache_salt = options.cache_salt});
}

ReadRequest PromptReader::finished(openai::GenerationOptions options, std::vector<routing::PromptKeys> keys,
                                   std::size_t prompts, const FleetReadings& fleet) const {
  ReadRequest read{.options = std::move(options), .profile = {}, .prompts = prompts};
  read.profile.prompt_tokens = keys.front().prompt_tokens;
  read.profile.blocks = std::move(keys.front().blocks);
  keys.erase(keys.begin());
  read.profile.otherwise = std::move(keys);
  read.profile.reads_cache = !read.options.computes_whole_prompt;
  read.profile.admission.priority = read.options.priority;
  read.profile.adapter = adapter_of(read.options, fleet);
  read.profile.session = routing::session_key(read.options.session);
  return read;
}

std::vector<routing::PromptKeys> PromptReader::keys_of(std::vector<TokenId>& prompt,
                                                       const openai::GenerationOptions& options,
                                                       const FleetReadings& fleet) const {
  text::truncate(prompt, openai::truncation_of(options.prompt, fleet.max_model_len));
  return {{.prompt_tokens = static_cast<std::uint32_t>(prompt.size()),
           .blocks = shared(kv::hash_blocks(root_of(options, fleet), prompt, block_size_))}};
}

PromptBlocks PromptReader::blocks_of(tokenizer::RenderedPrompt prompt, const PromptEncoding& how,
                                     kv::BlockHash root) const {
  const tokenizer::Tokenizer& tokenizer = *text_->tokenizer;
  if (how.truncation) {
    const std::vector<TokenId> tokens = text::encode_prompt(tokenizer, std::move(prompt), how);
    return {.tokens = static_cast<std::uint32_t>(tokens.size()), .blocks = kv::hash_blocks(root, tokens, block_size_)};
  }
  if (how.specials) prompt.from_messages.clear();
  return cache_.blocks_of(how.framed ? PromptFrame::kTokenizers : PromptFrame::kNone, prompt, tokenizer, root,
                          block_size_);
}

std::vector<routing::PromptKeys> PromptReader::keys_of(Api api, tokenizer::RenderedPrompt prompt,
                                                       const openai::GenerationOptions& options,
                                                       const FleetReadings& fleet) const {
  const std::vector<NumberedEncoding> encodings = encodings_of(api, prompt, options.prompt, fleet, *text_->tokenizer);
  std::vector<routing::PromptKeys> keys;
  for (const auto& [reading, how] : encodings) {
    const bool last = keys.size() + 1 == encodings.size();
    PromptBlocks read = blocks_of(last ? std::move(prompt) : prompt, how, root_of(options, fleet));
    keys.push_back({.reading = reading, .prompt_tokens = read.tokens, .blocks = shared(std::move(read.blocks))});
  }
  return keys;
}

Result<std::vector<routing::PromptKeys>> PromptReader::keys_of(const openai::ChatRequest& request,
                                                               const FleetReadings& fleet) const {
  const text::ChatInput input = openai::chat_input(request, net::local_time());
  if (!text_) {
    // Four bytes a byte of the prompt would otherwise be allocated and be new to the processor's cache each time.
    thread_local std::vector<TokenId> tokens;
    simple_template_.render(input, bytes_, tokens);
    auto keys = keys_of(tokens, request.options, fleet);
    if (tokens.capacity() > kKeptTokens) tokens = {};
    return keys;
  }
  KVIST_TRY(tokenizer::RenderedPrompt prompt, text_->chat_template->render(input));
  return keys_of(Api::kChat, std::move(prompt), request.options, fleet);
}

std::vector<routing::PromptKeys> PromptReader::keys_of(openai::Prompt prompt, const openai::GenerationOptions& options,
                                                       const FleetReadings& fleet) const {
  if (auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) return keys_of(*tokens, options, fleet);
  std::string& text = std::get<std::string>(prompt);
  if (!text_) {
    std::vector<TokenId> tokens = tokens_of(text);
    return keys_of(tokens, options, fleet);
  }
  return keys_of(Api::kCompletions, text::completion_prompt(std::move(text)), options, fleet);
}

std::vector<TokenId> PromptReader::tokens_of(std::string_view prompt, const PromptReading& reading) const {
  if (text_)
    return text::encode_prompt(*text_->tokenizer, text::completion_prompt(std::string(prompt)),
                               encoding_of(Api::kCompletions, reading, {}, 0));
  std::vector<TokenId> tokens;
  bytes_.encode(prompt, tokens);
  return tokens;
}

Result<std::vector<TokenId>> PromptReader::tokens_of(std::span<const text::ChatMessage> messages,
                                                     const PromptReading& reading) const {
  if (!text_) return simple_template_.render(messages, bytes_);
  return text_->chat_template->tokens({.messages = messages, .now = net::local_time()}, *text_->tokenizer,
                                      encoding_of(Api::kChat, reading, {}, 0));
}

std::string PromptReader::special_texts(std::size_t most) const {
  std::string texts;
  if (!text_) return texts;
  const tokenizer::Tokenizer& tokenizer = *text_->tokenizer;
  std::size_t count = 0;
  for (std::uint32_t id = 0; id < tokenizer.vocabulary_size() && count < most; ++id) {
    if (!tokenizer.is_special(TokenId(id))) continue;
    texts += tokenizer.spelling(TokenId(id));
    texts += ' ';
    ++count;
  }
  return texts;
}

Result<ReadRequest> PromptReader::read(Api api, std::string_view body, const FleetReadings& fleet) const {
  if (api == Api::kChat) {
    KVIST_TRY(openai::ChatRequest request, openai::parse_chat_request(body, openai::ReadFor::kRouting));
    KVIST_TRY_VOID(check_model(request.options.model, fleet));
    KVIST_TRY(std::vector<routing::PromptKeys> keys, keys_of(request, fleet));
    return finished(std::move(request.options), std::move(keys), 1, fleet);
  }
  KVIST_TRY(openai::CompletionRequest request, openai::parse_completion_request(body, openai::ReadFor::kRouting));
  KVIST_TRY_VOID(check_model(request.options.model, fleet));
  // All prompts of a request go to one worker, which the first prompt decides.
  std::vector<routing::PromptKeys> keys = keys_of(std::move(request.prompts.front()), request.options, fleet);
  return finished(std::move(request.options), std::move(keys), request.prompts.size(), fleet);
}

}  // namespace kvist::gateway
