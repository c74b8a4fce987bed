// A tokenizer with more tokens than its model has embeddings, as after adding a padding token without training.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/engine/cpu/model_writer.h"
#include "running_worker.h"
#include "text/model_directory.h"

namespace kvist::worker::model_vocabulary_test {
namespace {

TEST(ModelVocabulary, ATokenThatTheModelDoesNotHaveIsRefused) {
  const text::ModelDirectory directory;
  tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
  small.added = {{"<s>"}, {"</s>"}, {"[PAD]"}};
  const auto known = static_cast<std::uint32_t>(small.tokens.size()) + 2;
  directory.write("tokenizer.json", small.json());
  directory.write("tokenizer_config.json",
                  R"({"eos_token":"</s>","chat_template":"[PAD]{{ messages[0]['content'] }}"})");
  ASSERT_TRUE(
      engine::cpu::write_model(engine::cpu::config_of(engine::cpu::ModelSize::kTiny, known, known - 2, known - 1),
                               engine::cpu::DataType::kBf16, 1, directory.path()));
  spec::WorkerSpec spec = fast_spec();
  spec.tokenizer = directory.path();
  spec.cpu = spec::CpuEngineSpec{.model = directory.path(), .threads = 1};
  spec.kv_blocks = 64;
  spec.max_model_len = 512;
  RunningWorker worker(spec);

  const auto refused = [&](const std::string& path, const std::string& body, const std::string& why) {
    const net::HttpResponse response = worker.post(path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_TRUE(response.body.contains(why)) << response.body;
  };
  const std::string behind = fmt::format("token {}", known);
  refused("/v1/completions", completion_body(fmt::format("[97,{}]", known)), "prompt[1]: " + behind);
  refused("/v1/completions", completion_body(R"("a[PAD]")"), "prompt[1]: " + behind);
  refused("/v1/chat/completions", chat_body("a"), fmt::format(R"(messages: {}, \"[PAD]\", is outside)", behind));
  refused(
      "/v1/completions",
      completion_body(R"("a")", fmt::format(R"("stream":true,"kvist_resume":{{"created":1,"token_ids":[{}]}})", known)),
      behind);
  EXPECT_EQ(worker.post("/v1/completions", completion_body(R"("a")", R"("max_tokens":2)")).status, 200);
  EXPECT_EQ(worker.post("/tokenize", R"({"prompt":"a[PAD]"})").status, 200);
}

}  // namespace
}  // namespace kvist::worker::model_vocabulary_test
