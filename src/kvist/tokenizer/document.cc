#include "kvist/tokenizer/document.h"

#include <fmt/format.h>

#include <fstream>
#include <unordered_set>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/tokenizer/limits.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kMostDepth = 64;  // of lists and objects; real files have 8

// Reads an optional member; the default if it is missing or null.
template <class T>
Result<T> read_or_default(const JsonObject& document, std::string_view key) {
  KVIST_TRY(const auto value, document.find(key));
  if (!value) return T();
  return T::read(*value);
}

// The model's vocabulary with the added tokens, which may be in it already under the same id.
Result<TokenTable> spellings_of(const TokenTable& vocabulary, const std::vector<AddedToken>& added) {
  TokenTable all = vocabulary;
  std::unordered_set<std::uint32_t> seen;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const auto corrupt = [&](std::string_view what) {
      return fail(ErrorCode::kCorrupt, fmt::format("added_tokens[{}]: {} with id {}: {}", i, in_quotes(token.content),
                                                   token.id.value(), what));
    };
    if (!seen.insert(token.id.value()).second) return corrupt("the id is that of another added token");
    const auto known = all.find(token.content);
    if (known == token.id) continue;
    if (known) return corrupt(fmt::format("the token has id {} already", known->value()));
    if (all.contains(token.id)) return corrupt(fmt::format("the id is that of {}", in_quotes(all.text(token.id))));
    all.add(token.id, token.content);
  }
  return all;
}

Result<void> check_post_processor(const PostProcessor& post_processor, const TokenTable& spellings) {
  for (const auto* side : {&post_processor.before, &post_processor.behind}) {
    for (const TokenId token : *side) {
      if (spellings.contains(token)) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("post_processor: id {} is not in the vocabulary", token.value()));
    }
  }
  return {};
}

}  // namespace

Result<Document> Document::read(std::string_view json) {
  JsonDocument text({.most_bytes = kMostFileBytes, .most_depth = kMostDepth});
  KVIST_TRY(const JsonObject document, text.parse_object(json));
  // Truncation and padding are for training batches. A prompt is encoded completely.
  document.ignore({"version", "truncation", "padding"});
  std::vector<AddedToken> added;
  KVIST_TRY(const auto added_at, document.find("added_tokens"));
  if (added_at) {
    KVIST_TRY(added, read_added_tokens(*added_at));
  }
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : added) {
    if (token.special) special.insert(token.content);
  }
  KVIST_TRY(Normalizer normalizer, read_or_default<Normalizer>(document, "normalizer"));
  KVIST_TRY(PreTokenizer pre_tokenizer, read_or_default<PreTokenizer>(document, "pre_tokenizer"));
  KVIST_TRY(PostProcessor post_processor, read_or_default<PostProcessor>(document, "post_processor"));
  KVIST_TRY(TokenDecoder decoder, read_or_default<TokenDecoder>(document, "decoder"));
  KVIST_TRY(const JsonValue model_at, document.require("model"));
  KVIST_TRY_VOID(document.finish());
  KVIST_TRY(BpeModel model, BpeModel::read(model_at, pre_tokenizer.byte_level(), special));
  KVIST_TRY(TokenTable spellings, spellings_of(model.vocabulary(), added));
  KVIST_TRY_VOID(check_post_processor(post_processor, spellings));
  return Document{std::move(normalizer), std::move(pre_tokenizer), std::move(model),    std::move(post_processor),
                  std::move(decoder),    std::move(added),         std::move(spellings)};
}

}  // namespace kvist::tokenizer
