// From a client's body to what routing needs: options, prompt length, block names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/openai/types.h"
#include "kvist/text/chat.h"
#include "kvist/text/tokenizer.h"

namespace kvist::gateway {

/// Which endpoint a request came to.
enum class Api : std::uint8_t { kChat, kCompletions };

/// A body that was understood.
struct ReadRequest {
  openai::GenerationOptions options;
  dispatch::RequestProfile profile;  ///< of the first prompt; its session is what the body says
  std::size_t prompts = 1;
};

/// Renders, tokenizes and hashes prompts exactly as the workers do. Immutable; any thread may use it.
class PromptReader {
 public:
  PromptReader(std::string model, std::uint32_t block_size) : model_(std::move(model)), block_size_(block_size) {}

  /// kNotFound for another model than the one served; otherwise what openai::parse_*_request refuses.
  [[nodiscard]] Result<ReadRequest> read(Api api, std::string_view body) const;

 private:
  [[nodiscard]] Result<ReadRequest> finish(openai::GenerationOptions options, const std::vector<TokenId>& prompt,
                                           std::size_t prompts) const;
  [[nodiscard]] Result<void> check_model(const std::string& model) const;

  std::string model_;
  std::uint32_t block_size_;
  text::ByteTokenizer tokenizer_;
  text::SimpleChatTemplate template_;
};

}  // namespace kvist::gateway
