// fuzz: text
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/text/hugging_face_tokenizer.h"
#include "kvist/text/stream_decoder.h"

namespace {

using kvist::TokenId;

constexpr std::string_view kText =
    "Hello, w\xC3\xB6rld!  It's <s>a</s> 1234\n\n\te\xCC\x81 \xF0\x9F\x99\x82 \xFF\xE2\x82 \xE6\x97\xA5\xE6\x9C\xAC";

void check_tokens(const kvist::text::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) KVIST_CHECK(token.value() < tokenizer.vocabulary_size(), "an id outside");
  kvist::text::StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId token : tokens) streamed += decoder.push(token);
  streamed += decoder.finish();
  KVIST_CHECK(streamed == decode_text(tokenizer, tokens), "a stream is not its whole");
}

}  // namespace

/// The input is a tokenizer.json; if it is one that can be served, texts go through it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = kvist::text::HuggingFaceTokenizer::parse(json);
  if (!tokenizer) {
    KVIST_CHECK(!tokenizer.error().message.empty(), "an error without a word");
    return 0;
  }
  for (const std::string_view text : {kText, json.substr(0, 512)}) {
    std::vector<TokenId> plain;
    (*tokenizer)->encode(text, plain);
    check_tokens(**tokenizer, plain);
    std::vector<TokenId> prompt;
    (*tokenizer)->encode_completion({.text = std::string(text), .from_messages = {{2, 5}, {7, 16}}}, prompt);
    check_tokens(**tokenizer, prompt);
  }
  return 0;
}
