// Trains a tokenizer on files and writes its tokenizer.json, for the comparison with other tokenizers.
// Usage: train_tokenizer VOCABULARY_SIZE FILE... > tokenizer.json
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "kvist/tokenizer/bpe_trainer.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s VOCABULARY_SIZE FILE... > tokenizer.json\n", argv[0]);
    return 2;
  }
  std::string text;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const kvist::tokenizer::BpeTrainerOptions options{
      .vocabulary_size = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10)),
      .special_tokens = {"<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"},
      .begin_of_text = "<|begin_of_text|>"};
  const auto json = kvist::tokenizer::train_byte_level_bpe(text, options);
  if (!json) {
    std::fprintf(stderr, "%s\n", json.error().message.c_str());
    return 1;
  }
  return std::fwrite(json->data(), 1, json->size(), stdout) == json->size() ? 0 : 1;
}
