// Small tokenizer.json documents for tests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/tokenizer/byte_alphabet.h"

namespace kvist::tokenizer {

/// Llama 3's words.
inline constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A pre-tokenizer of words that an expression matches, read as bytes.
inline std::string words_of_bytes(std::string_view regex) {
  std::string quoted;
  append_json_string(quoted, regex);
  return fmt::format(R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},)"
                     R"("behavior":"Isolated","invert":false}},{{"type":"ByteLevel","add_prefix_space":false,)"
                     R"("trim_offsets":true,"use_regex":false}}]}})",
                     quoted);
}

/// A tokenizer.json made of its parts; each part is JSON.
struct SmallTokenizer {
  struct Added {
    std::string content;
    std::string flags = R"("special":true,"normalized":false)";
  };

  std::vector<std::string> tokens;  ///< ids from 0
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<Added> added;  ///< ids behind the tokens
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string model_options;  ///< further members of the model, with a comma in front

  /// 256 tokens for the bytes in their order, GPT-2's words, no merges.
  static SmallTokenizer bytes() {
    SmallTokenizer small;
    for (int byte = 0; byte < 256; ++byte) {
      small.tokens.push_back(token_of_bytes(std::string(1, static_cast<char>(byte))));
    }
    small.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
    small.decoder = R"({"type":"ByteLevel"})";
    return small;
  }

  /// Llama 2's way: "<unk>" is 0, bytes from 1 on, then `characters`.
  static SmallTokenizer characters(const std::vector<std::string>& characters) {
    SmallTokenizer small;
    small.tokens.emplace_back("<unk>");
    for (int byte = 0; byte < 256; ++byte) small.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    small.tokens.insert(small.tokens.end(), characters.begin(), characters.end());
    small.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},)"
                       R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]})";
    small.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
                    R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
    small.model_options = R"(,"unk_token":"<unk>","fuse_unk":true,"byte_fallback":true)";
    return small;
  }

  /// Adds the tokens that bytes merge to, spelled as bytes.
  SmallTokenizer& merge(const std::string& left, const std::string& right) {
    const bool byte_level = pre_tokenizer.find("ByteLevel") != std::string::npos;
    const auto spell = [&](const std::string& text) { return byte_level ? token_of_bytes(text) : text; };
    merges.emplace_back(spell(left), spell(right));
    if (std::ranges::find(tokens, spell(left + right)) == tokens.end()) tokens.push_back(spell(left + right));
    return *this;
  }

  [[nodiscard]] std::string json() const {
    std::string vocab;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) vocab += ',';
      append_json_string(vocab, tokens[i]);
      vocab += fmt::format(":{}", i);
    }
    std::string merge_list;
    for (const auto& [left, right] : merges) {
      if (!merge_list.empty()) merge_list += ',';
      merge_list += '[';
      append_json_string(merge_list, left);
      merge_list += ',';
      append_json_string(merge_list, right);
      merge_list += ']';
    }
    std::string added_list;
    for (std::size_t i = 0; i < added.size(); ++i) {
      added_list += fmt::format(R"({}{{"id":{},"content":)", i > 0 ? "," : "", tokens.size() + i);
      append_json_string(added_list, added[i].content);
      added_list += "," + added[i].flags + "}";
    }
    return fmt::format(R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{},)"
                       R"("pre_tokenizer":{},"post_processor":{},"decoder":{},)"
                       R"("model":{{"type":"BPE","dropout":null{},"vocab":{{{}}},"merges":[{}]}}}})",
                       added_list, normalizer, pre_tokenizer, post_processor, decoder, model_options, vocab,
                       merge_list);
  }
};

}  // namespace kvist::tokenizer
