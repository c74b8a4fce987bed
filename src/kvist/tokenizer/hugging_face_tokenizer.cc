#include "kvist/tokenizer/hugging_face_tokenizer.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/input_file.h"
#include "kvist/tokenizer/document.h"
#include "kvist/tokenizer/encoder.h"
#include "kvist/tokenizer/limits.h"
#include "kvist/tokenizer/post_processor.h"
#include "kvist/tokenizer/token_decoder.h"
#include "kvist/tokenizer/token_table.h"

namespace kvist::tokenizer {

struct HuggingFaceTokenizer::Parts {
  Parts(Document document, const HuggingFaceTokenizerOptions& options)
      : encoder(std::move(document.normalizer), std::move(document.pre_tokenizer), std::move(document.model),
                document.added),
        post_processor(std::move(document.post_processor)),
        decoder(std::move(document.decoder)),
        spellings(std::move(document.spellings)),
        is_special(spellings.end_id(), false),
        end_tokens(options.end_tokens) {
    for (const auto& token : document.added) is_special[token.id.value()] = token.special;
    bytes_begin.reserve(spellings.end_id() + std::size_t{1});
    for (std::uint32_t id = 0; id < spellings.end_id(); ++id) {
      bytes_begin.push_back(static_cast<std::uint32_t>(bytes.size()));
      if (has_text(TokenId(id))) bytes += decoder.bytes(spellings.text(TokenId(id)), false);
    }
    bytes_begin.push_back(static_cast<std::uint32_t>(bytes.size()));
  }

  [[nodiscard]] bool has_text(TokenId id) const { return spellings.contains(id) && !is_special[id.value()]; }

  Encoder encoder;
  PostProcessor post_processor;
  TokenDecoder decoder;
  TokenTable spellings;
  std::vector<bool> is_special;
  std::vector<TokenId> end_tokens;
  std::string bytes;  // the decoded bytes of all tokens, one after another
  std::vector<std::uint32_t> bytes_begin;
};

HuggingFaceTokenizer::HuggingFaceTokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
HuggingFaceTokenizer::~HuggingFaceTokenizer() = default;

Result<std::unique_ptr<HuggingFaceTokenizer>> HuggingFaceTokenizer::parse(std::string_view json,
                                                                          const HuggingFaceTokenizerOptions& given) {
  KVIST_TRY(Document document, Document::read(json));
  HuggingFaceTokenizerOptions options = given;
  if (!options.end_token.empty()) {
    const std::optional<TokenId> id = document.spellings.find(options.end_token);
    if (!id)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the end token \"{}\" is not in the vocabulary", options.end_token));
    std::erase(options.end_tokens, *id);
    options.end_tokens.insert(options.end_tokens.begin(), *id);
  }
  for (const TokenId token : options.end_tokens) {
    if (document.spellings.contains(token)) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("end token {} is not in the vocabulary", token.value()));
  }
  return std::unique_ptr<HuggingFaceTokenizer>(
      new HuggingFaceTokenizer(std::make_unique<const Parts>(std::move(document), options)));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path, const HuggingFaceTokenizerOptions& options) {
  KVIST_TRY(const std::string json, read_file(path, kMostFileBytes));
  auto tokenizer = HuggingFaceTokenizer::parse(json, options);
  if (!tokenizer) return std::unexpected(std::move(tokenizer).error().in(path));
  return *std::move(tokenizer);
}

void HuggingFaceTokenizer::encode(std::string_view text, std::vector<TokenId>& out) const {
  parts_->encoder.encode_plain(text, out);
}

void HuggingFaceTokenizer::encode_prompt(const RenderedPrompt& prompt, std::vector<TokenId>& out) const {
  parts_->encoder.encode_marked(prompt.text, prompt.from_messages, out);
}

void HuggingFaceTokenizer::cut_places(const RenderedPrompt& prompt, std::vector<std::size_t>& out) const {
  parts_->encoder.cut_places(prompt.text, prompt.from_messages, out);
}

bool HuggingFaceTokenizer::marks_matter(const RenderedPrompt& prompt) const {
  return parts_->encoder.marks_matter(prompt.text, prompt.from_messages);
}

Tokenizer::Frame HuggingFaceTokenizer::completion_frame() const {
  return {.before = parts_->post_processor.before, .behind = parts_->post_processor.behind};
}

TokenId HuggingFaceTokenizer::special(SpecialToken token) const {
  KVIST_CHECK(token == SpecialToken::kEndOfTurn && !parts_->end_tokens.empty(),
              "a tokenizer from a file has no roles but the end of a turn, and that only if it was told");
  return parts_->end_tokens.front();
}

std::span<const TokenId> HuggingFaceTokenizer::end_tokens() const {
  return parts_->end_tokens;
}

bool HuggingFaceTokenizer::is_special(TokenId token) const {
  return token.value() < parts_->is_special.size() && parts_->is_special[token.value()];
}

void HuggingFaceTokenizer::decode(TokenId token, std::string& out) const {
  if (token.value() >= parts_->spellings.end_id()) return;
  const std::uint32_t begin = parts_->bytes_begin[token.value()];
  out.append(parts_->bytes, begin, parts_->bytes_begin[token.value() + std::size_t{1}] - begin);
}

bool HuggingFaceTokenizer::decode_first(TokenId token, std::string& out) const {
  if (!parts_->has_text(token)) return false;
  out += parts_->decoder.bytes(parts_->spellings.text(token), true);
  return true;
}

std::optional<TokenId> HuggingFaceTokenizer::token_id(std::string_view spelling) const {
  return parts_->spellings.find(spelling);
}

std::string_view HuggingFaceTokenizer::spelling(TokenId token) const {
  return parts_->spellings.text(token);
}

std::uint32_t HuggingFaceTokenizer::vocabulary_size() const {
  return parts_->spellings.end_id();
}

}  // namespace kvist::tokenizer
