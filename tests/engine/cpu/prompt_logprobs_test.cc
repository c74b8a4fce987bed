// Log probabilities of a prompt: those of its rows computed alone, however the engine computes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/cpu/tiny_models.h"
#include "kvist/base/random.h"
#include "kvist/engine/core.h"
#include "kvist/engine/cpu/llama_executor.h"

namespace kvist::engine::cpu::prompt_logprobs_test {
namespace {

constexpr std::uint32_t kVocabulary = 97;

std::vector<TokenId> random_prompt(RandomStream& random, std::size_t length) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < length; ++i)
    tokens.emplace_back(static_cast<std::uint32_t>(random.uniform_int(0, kVocabulary - 1)));
  return tokens;
}

/// The definition: log of softmax over each row, of the token that follows.
std::vector<double> logprobs_alone(Computation& computation, std::span<const TokenId> prompt) {
  const auto rows = computation.run(prompt, 0, static_cast<std::uint32_t>(prompt.size()), Computation::blocks(0, 16));
  std::vector<double> out;
  for (std::size_t i = 0; i + 1 < prompt.size(); ++i) {
    double sum = 0;
    for (const float logit : rows[i]) sum += std::exp(static_cast<double>(logit));
    out.push_back(static_cast<double>(rows[i][prompt[i + 1].value()]) - std::log(sum));
  }
  return out;
}

class Engine {
 public:
  Engine(Computation& computation, CoreOptions options)
      : executor_(std::shared_ptr<ForwardPass>(std::shared_ptr<void>(), &computation.forward()),
                  {.max_batch_size = options.max_batch_size,
                   .end_tokens = {},
                   .vocabulary = kVocabulary,
                   .max_logit_rows = 5}),
        core_(std::move(options), executor_) {}

  void submit(std::uint64_t id, std::vector<TokenId> prompt, std::uint32_t max_tokens,
              std::optional<std::uint32_t> prompt_logprobs, std::optional<std::uint32_t> logprobs = {}) {
    auto sampling = std::make_shared<SamplingOptions>();
    sampling->prompt_logprobs = prompt_logprobs;
    sampling->logprobs = logprobs;
    ASSERT_TRUE(core_.submit({.id = RequestId(id),
                              .prompt = std::move(prompt),
                              .max_tokens = max_tokens,
                              .seed = id,
                              .ignore_eos = true,
                              .cache_salt = {},
                              .sampling = std::move(sampling)}));
  }
  void run() {
    while (core_.begin_step({}, plan_)) {
      executor_.finish(plan_, result_);
      core_.end_step(plan_, result_, outputs_);
      for (const RequestOutput& output : outputs_.outputs) cached[output.id.value()] = output.cached_tokens;
      for (const SampledLogprobs& given : outputs_.logprobs) {
        sampled[given.id.value()] += given.tokens.size();
        if (!given.prompt) continue;
        EXPECT_FALSE(prompts.contains(given.id.value())) << "once";
        prompts[given.id.value()] = given.prompt;
      }
    }
    EXPECT_TRUE(core_.idle());
  }
  [[nodiscard]] CoreStats stats() const { return core_.stats(); }

  std::map<std::uint64_t, std::shared_ptr<const std::vector<TokenLogprobs>>> prompts;
  std::map<std::uint64_t, std::size_t> sampled;
  std::map<std::uint64_t, std::uint32_t> cached;

 private:
  LlamaExecutor executor_;
  Core core_;
  StepPlan plan_;
  StepResult result_;
  StepOutputs outputs_;
};

CoreOptions options_of(std::uint32_t blocks, std::uint32_t step_tokens) {
  return {.model = "m",
          .block_size = 16,
          .kv_blocks = blocks,
          .max_batch_size = 8,
          .max_num_tokens = step_tokens,
          .max_model_len = 256,
          .block_tables = true};
}

void expect_near(const std::vector<TokenLogprobs>& got, const std::vector<double>& want,
                 std::span<const TokenId> prompt) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].chosen.token, prompt[i + 1]);
    EXPECT_NEAR(static_cast<double>(got[i].chosen.logprob), want[i], 1e-4) << i;
  }
}

TEST(PromptLogprobs, AreThoseOfItsRowsHoweverItIsComputed) {
  const std::uint64_t seed = 11;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  for (const std::uint32_t step_tokens : {7U, 33U, 256U}) {
    Computation computation(tiny_models().front());
    Engine engine(computation, options_of(64, step_tokens));
    std::map<std::uint64_t, std::vector<TokenId>> prompts;
    for (std::uint64_t id = 1; id <= 6; ++id) {
      prompts[id] = random_prompt(random, static_cast<std::size_t>(random.uniform_int(1, 90)));
      engine.submit(id, prompts[id], static_cast<std::uint32_t>(random.uniform_int(1, 5)),
                    static_cast<std::uint32_t>(id % 3));
    }
    engine.run();
    for (const auto& [id, prompt] : prompts) {
      ASSERT_TRUE(engine.prompts[id]) << id;
      expect_near(*engine.prompts[id], logprobs_alone(computation, prompt), prompt);
      for (const TokenLogprobs& token : *engine.prompts[id]) {
        EXPECT_EQ(token.likeliest.size(), id % 3);
        if (token.rank == 1 && !token.likeliest.empty()) {
          EXPECT_EQ(token.likeliest.front(), token.chosen);
        }
        if (token.rank == 2 && token.likeliest.size() == 2) {
          EXPECT_EQ(token.likeliest.back(), token.chosen);
        }
      }
      EXPECT_EQ(engine.sampled[id], 0U) << "nobody asked for the answer's";
    }
  }
}

TEST(PromptLogprobs, AreComputedWhatIsCachedAndCachedAfterwards) {
  Computation computation(tiny_models().front());
  Engine engine(computation, options_of(64, 40));
  const std::vector<TokenId> tokens = prompt(100);
  engine.submit(1, tokens, 4, {});
  engine.run();
  engine.submit(2, tokens, 4, 0, 0);
  engine.run();
  engine.submit(3, tokens, 4, {});
  engine.run();
  EXPECT_EQ(engine.cached[2], 0U);
  EXPECT_EQ(engine.cached[3], 96U);
  EXPECT_FALSE(engine.prompts.contains(1));
  expect_near(*engine.prompts[2], logprobs_alone(computation, tokens), tokens);
  EXPECT_EQ(engine.sampled[2], 4U);
  EXPECT_EQ(engine.stats().prefix_query_tokens, 200U) << "the second asked nothing of the cache";
}

TEST(PromptLogprobs, SurvivePreemption) {
  Computation computation(tiny_models().front());
  CoreOptions options = options_of(12, 20);
  options.admission = spec::AdmissionKind::kGreedy;
  options.max_model_len = 190;
  Engine engine(computation, options);
  RandomStream random(3);
  std::map<std::uint64_t, std::vector<TokenId>> prompts;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    prompts[id] = random_prompt(random, 60);
    engine.submit(id, prompts[id], 60, 1);
  }
  engine.run();
  EXPECT_GT(engine.stats().preemptions, 0U);
  for (const auto& [id, tokens] : prompts)
    expect_near(*engine.prompts[id], logprobs_alone(computation, tokens), tokens);
}

TEST(PromptLogprobs, DoNotWaitForAnotherThatComputesTheSame) {
  Computation computation(tiny_models().front());
  CoreOptions options = options_of(64, 64);
  options.prefix_deferral = true;
  Engine engine(computation, options);
  const std::vector<TokenId> tokens = prompt(60);
  for (std::uint64_t id = 1; id <= 3; ++id) engine.submit(id, tokens, 2, 0);
  engine.run();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(engine.cached[id], 0U);
    expect_near(*engine.prompts[id], logprobs_alone(computation, tokens), tokens);
  }
}

}  // namespace
}  // namespace kvist::engine::cpu::prompt_logprobs_test
