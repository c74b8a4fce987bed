// kvist's side of the comparison with other tokenizers (peers_test.py): reads a JSON string per line, or a list of ids,
// writes what the tokenizer makes of it as one JSON object per line. Usage: encode_lines TOKENIZER_JSON < lines >
// results
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/text/hugging_face_tokenizer.h"
#include "kvist/text/stream_decoder.h"

namespace {

using kvist::TokenId;

std::string list_of(const std::vector<TokenId>& tokens) {
  std::string out = "[";
  for (const TokenId token : tokens) out += fmt::format("{}{}", out.size() > 1 ? "," : "", token.value());
  return out + "]";
}

std::string streamed(const kvist::text::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  kvist::text::StreamDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId token : tokens) text += decoder.push(token);
  return text + decoder.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON < lines > results\n", argv[0]);
    return 2;
  }
  const auto tokenizer = kvist::text::load_tokenizer(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  simdjson::dom::parser parser;
  for (std::string line; std::getline(std::cin, line);) {
    std::string_view text;
    std::string out;
    std::vector<TokenId> prompt;
    const auto value = parser.parse(line);
    if (value.get(text) == simdjson::SUCCESS) {
      const kvist::text::RenderedPrompt rendered{.text = std::string(text), .from_messages = {}};
      std::vector<TokenId> plain;
      (*tokenizer)->encode(text, plain);
      (*tokenizer)->encode_prompt(rendered, prompt);
      std::vector<TokenId> completion;
      (*tokenizer)->encode_completion(rendered, completion);
      out = fmt::format(R"("plain":{},"prompt":{},"completion":{},)", list_of(plain), list_of(prompt),
                        list_of(completion));
    } else if (simdjson::dom::array ids; value.get(ids) == simdjson::SUCCESS) {
      for (const std::uint64_t id : ids) prompt.emplace_back(static_cast<std::uint32_t>(id));
    } else {
      std::fprintf(stderr, "neither a JSON string nor a list: %s\n", line.c_str());
      return 1;
    }
    out += R"("text":)";
    kvist::append_json_string(out, decode_text(**tokenizer, prompt));
    out += R"(,"streamed":)";
    kvist::append_json_string(out, streamed(**tokenizer, prompt));
    std::puts(("{" + out + "}").c_str());
  }
  return 0;
}
