// The tokenizers that models ship.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::tokenizer {

struct HuggingFaceTokenizerOptions {
  /// Tokens that end an answer, the usual one first: from the model's generation_config.json.
  std::vector<TokenId> end_tokens = {};
  /// Another end token by its spelling, which comes first; empty: none.
  std::string end_token = {};
};

/// A tokenizer read from a `tokenizer.json` of Hugging Face's tokenizers library: byte-pair encoding, over bytes
/// (GPT-2, Llama 3, Qwen) or over characters with byte fallback (Llama 2, Mistral). The tokens are the same as that
/// library's. If the file uses an unsupported feature, loading fails with an error that names it and its place.
///
/// Immutable. Threads: any. Memory: each thread keeps a cache of words and scratch memory (a few MiB), for one
/// tokenizer at a time; while it encodes, it needs about 30 times the text in addition.
class HuggingFaceTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HuggingFaceTokenizer>> parse(
      std::string_view json, const HuggingFaceTokenizerOptions& options = {});
  ~HuggingFaceTokenizer() override;

  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  void encode_prompt(const RenderedPrompt& prompt, std::vector<TokenId>& out) const override;
  void cut_places(const RenderedPrompt& prompt, std::vector<std::size_t>& out) const override;
  [[nodiscard]] bool marks_matter(const RenderedPrompt& prompt) const override;
  [[nodiscard]] Frame completion_frame() const override;
  [[nodiscard]] TokenId special(SpecialToken token) const override;
  [[nodiscard]] std::span<const TokenId> end_tokens() const override;
  [[nodiscard]] bool is_special(TokenId token) const override;
  void decode(TokenId token, std::string& out) const override;
  bool decode_first(TokenId token, std::string& out) const override;
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view spelling) const override;
  [[nodiscard]] std::string_view spelling(TokenId token) const override;
  [[nodiscard]] std::uint32_t vocabulary_size() const override;

 private:
  struct Parts;
  explicit HuggingFaceTokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

/// Reads a tokenizer.json from a file.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path,
                                                                const HuggingFaceTokenizerOptions& options = {});

}  // namespace kvist::tokenizer
