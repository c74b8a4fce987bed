// kvist's side of the comparison with other tokenizers (tokenizer_peer.mjs): reads lines of JSON, each a text, a prompt
// {"text": ..., "from_messages": [[begin, end], ...]} or a list of ids, and writes what the tokenizer makes of it as
// one JSON object per line. Usage: encode_lines TOKENIZER_JSON < lines > results
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace {

using kvist::TokenId;

std::string list_of(const std::vector<TokenId>& tokens) {
  std::string out = "[";
  for (const TokenId token : tokens) out += fmt::format("{}{}", out.size() > 1 ? "," : "", token.value());
  return out + "]";
}

std::string streamed(const kvist::tokenizer::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  kvist::text::StreamDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId token : tokens) text += decoder.push(token);
  return text + decoder.finish();
}

kvist::tokenizer::RenderedPrompt prompt_of(const simdjson::dom::object& object) {
  kvist::tokenizer::RenderedPrompt prompt;
  prompt.text = std::string(object["text"].get_string().value());
  const simdjson::dom::array ranges = object["from_messages"].get_array().value();
  for (const simdjson::dom::element range : ranges) {
    prompt.from_messages.push_back({range.at(0).get_uint64().value(), range.at(1).get_uint64().value()});
  }
  return prompt;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON < lines > results\n", argv[0]);
    return 2;
  }
  const auto tokenizer = kvist::tokenizer::load_tokenizer(argv[1]);
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
      const kvist::tokenizer::RenderedPrompt rendered{.text = std::string(text), .from_messages = {}};
      std::vector<TokenId> plain;
      (*tokenizer)->encode(text, plain);
      (*tokenizer)->encode_prompt(rendered, prompt);
      std::vector<TokenId> completion;
      (*tokenizer)->encode_completion(rendered, completion);
      out = fmt::format(R"("plain":{},"prompt":{},"completion":{},)", list_of(plain), list_of(prompt),
                        list_of(completion));
    } else if (simdjson::dom::object object; value.get(object) == simdjson::SUCCESS) {
      (*tokenizer)->encode_prompt(prompt_of(object), prompt);
      out = fmt::format(R"("prompt":{},)", list_of(prompt));
    } else if (simdjson::dom::array ids; value.get(ids) == simdjson::SUCCESS) {
      for (const std::uint64_t id : ids) prompt.emplace_back(static_cast<std::uint32_t>(id));
    } else {
      std::fprintf(stderr, "neither a string, nor a prompt, nor a list of ids: %s\n", line.c_str());
      return 1;
    }
    out += R"("text":)";
    kvist::append_json_string(out, kvist::text::decode_text(**tokenizer, prompt));
    out += R"(,"streamed":)";
    kvist::append_json_string(out, streamed(**tokenizer, prompt));
    std::puts(("{" + out + "}").c_str());
  }
  return 0;
}
