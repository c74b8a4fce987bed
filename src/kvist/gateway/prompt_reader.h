// Reads from a client's body what routing needs: options, prompt length, block hashes.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/gateway/prefix_cache.h"
#include "kvist/openai/types.h"
#include "kvist/routing/prompt_keys.h"
#include "kvist/text/chat.h"
#include "kvist/text/model_text.h"
#include "kvist/text/prompt_encoding.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::gateway {

/// The endpoint of a request.
enum class Api : std::uint8_t { kChat, kCompletions };

/// How the workers of a fleet tokenize prompts: the readings that occur, and what else a prompt's tokens and the name
/// of its model depend on. It is a value, so that a prompt that is read on another thread is read with the state at its
/// arrival.
struct FleetReadings {
  /// By PromptReading::number(). If none is set, no worker has answered yet, and all are assumed to read as Hugging
  /// Face's library does.
  std::bitset<text::PromptReading::kNumbers> present;
  std::uint32_t max_model_len = 0;  ///< context length of the workers in tokens; 0: unknown
  /// The adapters (LoRA) of the model that any worker has, sorted; null: none.
  std::shared_ptr<const std::vector<std::string>> adapters = nullptr;
  std::shared_ptr<const std::vector<std::string>> aliases = nullptr;  ///< further names of the model; null: none

  [[nodiscard]] bool is_alias(std::string_view name) const {
    return aliases != nullptr && std::ranges::find(*aliases, name) != aliases->end();
  }
  [[nodiscard]] bool has_adapter(std::string_view name) const {
    return adapters != nullptr && std::ranges::binary_search(*adapters, name);
  }
  /// The reading whose block hashes are a request's main ones (RouteQuery::blocks): the one with the lowest number.
  [[nodiscard]] text::PromptReading main() const {
    for (std::uint8_t number = 0; number < text::PromptReading::kNumbers; ++number)
      if (present.test(number)) return text::PromptReading::of_number(number);
    return {};
  }
};

/// A body that could be read.
struct ReadRequest {
  openai::GenerationOptions options;
  dispatch::RequestProfile profile;  ///< of the first prompt; the session is the one that the body names
  std::size_t prompts = 1;
};

/// Renders, tokenizes and hashes prompts exactly as the workers do. If workers differ in how they read a prompt, it has
/// the block hashes of each reading. Threads: any.
class PromptReader {
 public:
  static constexpr std::size_t kCacheBytes = 64UL << 20;

  /// Without `text`, each byte is a token, as in the timed engine. With it, the beginnings of prompts are kept in a
  /// PrefixCache of `cache_bytes`.
  PromptReader(std::string model, std::uint32_t block_size, std::shared_ptr<const text::ModelText> text = nullptr,
               std::size_t cache_bytes = kCacheBytes)
      : model_(std::move(model)),
        plain_root_(kv::root_hash({.model = model_, .lora = "", .cache_salt = ""})),
        block_size_(block_size),
        text_(std::move(text)),
        cache_(cache_bytes) {}

  /// The adapter that the name of a model stands for, if any worker has it; empty: it stands for the model itself, or
  /// for nothing.
  [[nodiscard]] std::string_view adapter_named(std::string_view model, const FleetReadings& fleet) const {
    return model != model_ && !fleet.is_alias(model) && fleet.has_adapter(model) ? model : std::string_view();
  }

  /// A request for an adapter that a worker has gets block hashes of its own, as in the workers' events.
  /// Errors: kNotFound for another model than the served one and its adapters; those of openai::parse_*_request and of
  /// the chat template.
  [[nodiscard]] Result<ReadRequest> read(Api api, std::string_view body, const FleetReadings& fleet = {}) const;

  /// The tokens of a prompt, or of a chat, as a worker of the same model with this reading has them.
  [[nodiscard]] std::vector<TokenId> tokens_of(std::string_view prompt, const text::PromptReading& reading = {}) const;
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(std::span<const text::ChatMessage> messages,
                                                       const text::PromptReading& reading = {}) const;
  /// The texts of the model's first `most` special tokens, each followed by a space.
  [[nodiscard]] std::string special_texts(std::size_t most) const;

  /// Whether a model's own tokenizer tokenizes prompts, which takes long enough to need other threads.
  [[nodiscard]] bool is_slow() const { return text_ != nullptr; }
  [[nodiscard]] PrefixCacheCounters cache_counters() const { return cache_.counters(); }
  [[nodiscard]] const std::string& model() const { return model_; }

 private:
  /// The block hashes in the fleet's main reading, then those in each reading that gives this prompt other tokens.
  [[nodiscard]] Result<std::vector<routing::PromptKeys>> keys_of(const openai::ChatRequest& request,
                                                                 const FleetReadings& fleet) const;
  [[nodiscard]] std::vector<routing::PromptKeys> keys_of(openai::Prompt prompt,
                                                         const openai::GenerationOptions& options,
                                                         const FleetReadings& fleet) const;
  [[nodiscard]] std::vector<routing::PromptKeys> keys_of(std::vector<TokenId>& prompt,
                                                         const openai::GenerationOptions& options,
                                                         const FleetReadings& fleet) const;
  [[nodiscard]] std::vector<routing::PromptKeys> keys_of(Api api, tokenizer::RenderedPrompt prompt,
                                                         const openai::GenerationOptions& options,
                                                         const FleetReadings& fleet) const;
  [[nodiscard]] PromptBlocks blocks_of(tokenizer::RenderedPrompt prompt, const text::PromptEncoding& how,
                                       kv::BlockHash root) const;
  [[nodiscard]] std::string_view adapter_of(const openai::GenerationOptions& options, const FleetReadings& fleet) const;
  [[nodiscard]] kv::BlockHash root_of(const openai::GenerationOptions& options, const FleetReadings& fleet) const;
  [[nodiscard]] ReadRequest finished(openai::GenerationOptions options, std::vector<routing::PromptKeys> keys,
                                     std::size_t prompts, const FleetReadings& fleet) const;
  [[nodiscard]] Result<void> check_model(const std::string& model, const FleetReadings& fleet) const;

  std::string model_;
  kv::BlockHash plain_root_;  // of prompts without an adapter and a cache salt
  std::uint32_t block_size_;
  std::shared_ptr<const text::ModelText> text_;  // null: bytes
  tokenizer::ByteTokenizer bytes_;
  text::SimpleChatTemplate simple_template_;
  mutable PrefixCache cache_;
};

}  // namespace kvist::gateway
