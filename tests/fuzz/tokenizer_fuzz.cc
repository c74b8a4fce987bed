// fuzz: text
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/text/prompt_encoding.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace {

using kvist::TokenId;

constexpr std::string_view kText =
    "Hello, w\xC3\xB6rld!  It's <s>a</s> 1234\n\n\te\xCC\x81 \xF0\x9F\x99\x82 \xFF\xE2\x82 \xE6\x97\xA5\xE6\x9C\xAC";

void check_tokens(const kvist::tokenizer::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) KVIST_CHECK(token.value() < tokenizer.vocabulary_size(), "an id outside");
  kvist::text::StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId token : tokens) streamed += decoder.push(token);
  streamed += decoder.finish();
  KVIST_CHECK(streamed == kvist::text::decode_text(tokenizer, tokens), "a stream is not its whole");
}

// `framed`: the prompt's tokens within the frame, with its marks.
void check_readings(const kvist::tokenizer::Tokenizer& tokenizer, const kvist::tokenizer::RenderedPrompt& prompt,
                    const std::vector<TokenId>& framed) {
  using kvist::text::encode_prompt;
  KVIST_CHECK(encode_prompt(tokenizer, prompt, {.specials = false, .framed = true}) == framed, "two ways, two results");
  const std::vector<TokenId> special = encode_prompt(tokenizer, prompt, {.specials = true, .framed = true});
  check_tokens(tokenizer, special);
  KVIST_CHECK(tokenizer.marks_matter(prompt) || special == framed, "marks matter that were said not to");
  for (const auto side : {kvist::text::Truncation::Side::kDefault, kvist::text::Truncation::Side::kKeepFirst}) {
    const auto cut = encode_prompt(tokenizer, prompt,
                                   {.framed = true, .truncation = kvist::text::Truncation{.tokens = 3, .side = side}});
    KVIST_CHECK(cut.size() == std::min<std::size_t>(3, special.size()), "as many tokens as are kept");
  }
}

}  // namespace

/// The input is a tokenizer.json; if it is one that can be served, texts go through it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = kvist::tokenizer::HuggingFaceTokenizer::parse(json);
  if (!tokenizer) {
    KVIST_CHECK(!tokenizer.error().message.empty(), "an error without a word");
    return 0;
  }
  for (const std::string_view text : {kText, json.substr(0, 512)}) {
    std::vector<TokenId> plain;
    (*tokenizer)->encode(text, plain);
    check_tokens(**tokenizer, plain);
    const kvist::tokenizer::RenderedPrompt rendered{.text = std::string(text), .from_messages = {{2, 5}, {7, 16}}};
    std::vector<TokenId> prompt;
    (*tokenizer)->encode_completion(rendered, prompt);
    check_tokens(**tokenizer, prompt);
    check_readings(**tokenizer, rendered, prompt);
  }
  return 0;
}
