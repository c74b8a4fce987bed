// Small model directories for tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "kvist/base/json_writer.h"
#include "text/chatml.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::text {

/// A directory of its own, removed at the end.
class ModelDirectory {
 public:
  ModelDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvist-model-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~ModelDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }

  /// A model that speaks ChatML over bytes, with merges for a few common pairs.
  void write_chatml() const {
    tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
    small.merge("t", "h").merge("th", "e").merge(" ", "the").merge("i", "n").merge("e", "r").merge("a", "n");
    small.merge("o", "u")
        .merge(" ", "a")
        .merge("an", "d")
        .merge("\n", "\n")
        .merge(" ", " ")
        .merge("u", "s")
        .merge("us", "er");
    small.added = {{"<|im_start|>"}, {"<|im_end|>"}};
    write("tokenizer.json", small.json());
    std::string config = R"({"eos_token": "<|im_end|>", "chat_template": )";
    append_json_string(config, kChatMl);
    write("tokenizer_config.json", config + "}");
  }

 private:
  std::string path_;
};

}  // namespace kvist::text
