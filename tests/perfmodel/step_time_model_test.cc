#include "kvist/perfmodel/step_time_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "perfmodel/worker_with_profile.h"

namespace kvist::perfmodel::step_time_model_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kContext = 6'100;  // of a sequence, on average, in the published experiments

StepLoad decode(std::uint64_t batch, std::uint64_t context = kContext) {
  return {.sequences = batch,
          .kv_tokens_read = batch * context,
          .decode_sequences = batch,
          .decode_kv_tokens = batch * context};
}

StepLoad prefill(std::uint64_t tokens, std::uint64_t batch = 0) {
  StepLoad load = decode(batch);
  load.prefill_tokens = tokens;
  load.sequences += 1;
  load.kv_tokens_read += tokens;
  load.prefill_pairs = tokens * tokens / 2;
  return load;
}

StepTimeModel model_of(const spec::WorkerSpec& worker) {
  auto model = StepTimeModel::of(worker);
  EXPECT_TRUE(model.has_value()) << message(model);
  return *model;
}

/// A worker whose coefficients are round, so that a term can be computed by hand.
spec::WorkerSpec round_worker(const std::string& engine = "trtllm") {
  spec::WorkerSpec worker = worker_with_profile(engine);
  worker.profile->set = {{"weight_read.efficiency", 1},     {"kv_read.efficiency", 1},
                         {"matrix_products.efficiency", 1}, {"matrix_products.exponent", 64},
                         {"attention.efficiency", 1},       {"launch.fixed", 1},
                         {"launch.per_sequence", 0}};
  return worker;
}

double ms(const StepTimeModel& model, const StepLoad& load) {
  return to_milliseconds(model.step_time(load));
}

// 72.7 GB at 4.8 TB/s.
constexpr double kWeightReadMs = 72.7e9 / 4.8e12 * 1e3;

TEST(StepTimeModel, WithoutAProfileIsTheLinearFormula) {
  const spec::WorkerSpec worker;
  const StepTimeModel model = model_of(worker);
  EXPECT_EQ(model.step_time({}), Duration::zero());
  EXPECT_EQ(model.step_time(decode(32)), StepTimeModel(worker.step_time).step_time(decode(32)));
  EXPECT_EQ(model.intake_delay({.running = 50, .prompt_tokens = 4'000}), Duration::zero());
}

TEST(LinearStepTime, AddsItsTerms) {
  const StepTimeModel model(spec::StepTimeSpec{.fixed = nanoseconds(1'000'000),
                                               .per_prefill_token = nanoseconds(1'000),
                                               .per_sequence = nanoseconds(10),
                                               .per_kv_token_ns = 0.5,
                                               .per_prefill_pair_ns = 0.25});
  EXPECT_EQ(model.step_time({.prefill_tokens = 3, .sequences = 2, .kv_tokens_read = 8, .prefill_pairs = 400}),
            nanoseconds(1'003'124));
}

TEST(LinearStepTime, OfTheDefaultModelIsThatOfTheGpuItDescribes) {
  const StepTimeModel model(spec::StepTimeSpec{});
  // 32 sequences of 6,100 tokens decode: 21 + 32 x 0.07 + 195,200 x 0.00004 = 21 + 2.24 + 7.808 ms.
  EXPECT_EQ(model.step_time({.sequences = 32, .kv_tokens_read = 32 * 6'100}), nanoseconds(31'048'000));
  // A whole prompt of 3,800 tokens in one step: 21 + 357.2 + 0.07 + 0.152 ms.
  EXPECT_EQ(model.step_time({.prefill_tokens = 3'800, .sequences = 1, .kv_tokens_read = 3'800}),
            nanoseconds(378'422'000));
}

TEST(LinearStepTime, RoundsThePartBelowANanosecondOnce) {
  const StepTimeModel model(spec::StepTimeSpec{.fixed = nanoseconds(0),
                                               .per_prefill_token = nanoseconds(0),
                                               .per_sequence = nanoseconds(0),
                                               .per_kv_token_ns = 0.3});
  EXPECT_EQ(model.step_time({.sequences = 1, .kv_tokens_read = 5}), nanoseconds(2));  // 1.5
  EXPECT_EQ(model.step_time({.sequences = 1, .kv_tokens_read = 10'000'000'000}), milliseconds(3'000));
}

TEST(StepTimeModel, AnEmptyStepTakesNoTimeAndAnyOtherSome) {
  const StepTimeModel model = model_of(worker_with_profile());
  EXPECT_EQ(model.step_time({}), Duration::zero());
  EXPECT_GT(model.step_time(decode(1, 1)), Duration::zero());
}

TEST(StepTimeModel, ADecodeStepReadsTheWeightsAndTheKvCache) {
  const StepTimeModel model = model_of(round_worker());
  // One sequence: launch + weights + 163,840 bytes for each of 6,100 tokens.
  const double kv_ms = 6'100 * 163'840 / 4.8e12 * 1e3;
  EXPECT_NEAR(ms(model, decode(1)), 1 + kWeightReadMs + kv_ms, 0.001);
  EXPECT_NEAR(ms(model, decode(32)), 1 + kWeightReadMs + 32 * kv_ms, 0.001);
}

TEST(StepTimeModel, ManyRowsAreBoundByArithmeticFewByTheWeights) {
  spec::WorkerSpec worker = round_worker();
  worker.profile->set["host_floor.enabled"] = 0;
  worker.profile->set["graphs.eager_extra"] = 0;
  const StepTimeModel model = model_of(worker);
  const double row_ms = 2 * 70.55e9 / 1.979e15 * 1e3;
  const double pairs_ms = 4'000.0 * 4'000 / 2 * 4 * 80 * 64 * 128 / 0.9895e15 * 1e3;
  EXPECT_NEAR(ms(model, prefill(4'000)), 1 + 4'000 * row_ms + pairs_ms, 0.01);
  EXPECT_NEAR(ms(model, prefill(64)), 1 + kWeightReadMs, 0.01) << "64 tokens cost a weight read";
}

// The published systems, by hand: trtllm 43 ns per token of context, 90 us per row, 4.9 ms fixed; a batch of 20 of
// 6,100 tokens each: 4.9 + (15.146^1.84 + 1.8^1.84)^(1/1.84) + 122,000 x 43e-6 = 4.9 + 15.311 + 5.246 ms.
TEST(StepTimeModel, GivesTheStepTimesOfTheFit) {
  const StepTimeModel trtllm = model_of(worker_with_profile("trtllm"));
  EXPECT_NEAR(ms(trtllm, decode(20)), 25.31, 0.15);
  EXPECT_NEAR(ms(trtllm, decode(40)), 33 + 0.24 * 40, 0.01) << "bound by the host";
  EXPECT_NEAR(ms(trtllm, prefill(64, 20)), 33 + 0.24 * 20, 0.01);
  // vLLM, 60 sequences as 64 rows: 10.18 + (15.146^1.84 + (64 x 0.1246)^1.84)^(1/1.84) + 366,000 x 54.7e-6.
  const StepTimeModel vllm = model_of(worker_with_profile("vllm"));
  const double rows64 = std::pow(std::pow(15.146, 1.84) + std::pow(64 * 0.1246, 1.84), 1 / 1.84);
  EXPECT_NEAR(ms(vllm, decode(60)), 10.18 + rows64 + 366'000 * 54.7e-6, 0.05);
  EXPECT_GT(ms(vllm, decode(65)) - ms(vllm, decode(64)), 4) << "from 64 rows to 128";
  // EAGLE-3 drafting 3 tokens: about 1.7 ms per pass.
  spec::WorkerSpec worker = worker_with_profile("vllm");
  worker.speculation.enabled = true;
  const StepTimeModel eagle = model_of(worker);
  StepLoad load = decode(50);
  load.draft_tokens = 150;
  const double verify = ms(eagle, load);
  load.draft_passes = 3;
  EXPECT_NEAR(ms(eagle, load) - verify, 3 * 1.7, 0.15);
}

TEST(StepTimeModel, CapturedBatchesAreFastOthersHostBound) {
  const StepTimeModel model = model_of(worker_with_profile());
  const double at32 = ms(model, decode(32));
  const double at33 = ms(model, decode(33));
  const double at63 = ms(model, decode(63));
  const double at64 = ms(model, decode(64));
  EXPECT_GT(at33 - at32, 5) << "the cliff behind the largest small graph";
  EXPECT_LT(at64, at63) << "64 has a graph again";
  EXPECT_GT(ms(model, prefill(64, 8)), ms(model, decode(9)) + 5) << "a step with a prefill has no graph";
}

TEST(StepTimeModel, PaddingAndSwitchesChangeTheRegime) {
  spec::WorkerSpec worker = worker_with_profile();
  const double cliff = ms(model_of(worker), decode(33));
  worker.profile->set = {{"graphs.padding", 1}};
  const double padded = ms(model_of(worker), decode(33));
  EXPECT_LT(padded, cliff);
  worker.profile->set = {{"graphs.enabled", 0}};
  EXPECT_LE(ms(model_of(worker), decode(33)), padded) << "off: every size counts as captured, nothing is padded";
  worker.profile->set = {{"host_floor.enabled", 0}};
  EXPECT_LT(ms(model_of(worker), decode(33)), cliff);
}

TEST(StepTimeModel, TilesAndRoundedRowsMakeSteps) {
  spec::WorkerSpec worker = round_worker("vllm");
  worker.profile->set["matrix_products.first_tile"] = 16;
  worker.profile->set["matrix_products.tile"] = 128;
  const StepTimeModel model = model_of(worker);
  EXPECT_EQ(ms(model, decode(1, 0)), ms(model, decode(16, 0)));
  EXPECT_EQ(ms(model, decode(17, 0)), ms(model, decode(32, 0)));
  EXPECT_EQ(ms(model, decode(65, 0)), ms(model, decode(128, 0)));
  EXPECT_EQ(ms(model, decode(300, 0)), ms(model, decode(384, 0))) << "computed in multiples of 128";
  EXPECT_LT(ms(model, decode(384, 0)), ms(model, decode(385, 0)));
}

TEST(StepTimeModel, SpeculationCostsDraftPassesAndRows) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  const double plain = ms(model_of(worker), decode(50));
  worker.speculation.enabled = true;
  const StepTimeModel model = model_of(worker);
  EXPECT_EQ(ms(model, decode(50)), plain) << "a step without drafts is the plain one";
  StepLoad load = decode(50);
  load.draft_passes = 3;
  load.draft_tokens = 150;
  StepLoad verify_only = load;
  verify_only.draft_passes = 0;
  // Three times at least the drafter's weights.
  EXPECT_GT(ms(model, load) - ms(model, verify_only), 3 * 2.81e9 / 4.8e12 * 1e3);
  EXPECT_GT(ms(model, verify_only), plain) << "200 rows in place of 50";
}

TEST(StepTimeModel, IntakeGrowsWithTheWorkersLoadAndScattersByRequest) {
  spec::WorkerSpec worker = worker_with_profile();
  worker.profile->set = {{"intake.fixed", 100},
                         {"intake.per_sequence", 2},
                         {"intake.steps", 3},
                         {"intake.per_prompt_token", 0.001},
                         {"intake.jitter", 0}};
  IntakeLoad load{.running = 10, .last_decode_step = std::chrono::milliseconds(20), .prompt_tokens = 4'000, .seed = 7};
  EXPECT_EQ(model_of(worker).intake_delay(load), std::chrono::milliseconds(100 + 10 * 2 + 3 * 20 + 4));
  worker.profile->set["intake.jitter"] = 30;
  const StepTimeModel model = model_of(worker);
  double sum = 0;
  constexpr int kRequests = 20'000;
  for (load.seed = 0; load.seed < kRequests; ++load.seed) {
    const Duration delay = model.intake_delay(load);
    EXPECT_GE(delay, std::chrono::milliseconds(184));
    EXPECT_EQ(delay, model.intake_delay(load)) << "the same request, the same delay";
    sum += to_milliseconds(delay) - 184;
  }
  EXPECT_NEAR(sum / kRequests, 30, 1);
}

TEST(StepTimeModel, OtherCombinationsScaleAsTheirRooflineSays) {
  spec::WorkerSpec worker = round_worker();
  worker.profile->gpu = "h100";
  EXPECT_NEAR(ms(model_of(worker), decode(1, 0)), 1 + 72.7e9 / 3.35e12 * 1e3, 0.001) << "by bandwidth";
  worker = round_worker();
  worker.profile->model = "llama-3.1-8b-fp8";
  EXPECT_NEAR(ms(model_of(worker), decode(1, 0)), 32.0 / 80 + 9.08e9 / 4.8e12 * 1e3, 0.001)
      << "launches by layers, weights by bytes";
  worker = round_worker();
  worker.profile->tensor_parallel = 2;
  worker.profile->set["all_reduce.latency"] = 0.01;
  EXPECT_NEAR(ms(model_of(worker), decode(1, 0)), 1 + kWeightReadMs / 2 + 160 * 0.01, 0.01)
      << "half the weights, 160 all-reduces";
}

TEST(StepTimeModel, NeverGetsFasterWithMoreContextOrPrefill) {
  for (const char* engine : {"trtllm", "vllm"}) {
    const StepTimeModel model = model_of(worker_with_profile(engine));
    for (std::uint64_t batch = 1; batch <= 200; ++batch) {
      EXPECT_LT(ms(model, decode(batch, 1'000)), ms(model, decode(batch, 8'000)) + 1e-9) << engine << " " << batch;
    }
    for (std::uint64_t tokens = 16; tokens < 16'384; tokens += 16) {
      EXPECT_LE(model.step_time(prefill(tokens, 20)), model.step_time(prefill(tokens + 16, 20))) << engine << tokens;
    }
  }
}

TEST(StepTimeModel, UnknownNamesAreErrorsThatListTheKnown) {
  EXPECT_THAT(message(StepTimeModel::of(worker_with_profile("sglang"))),
              AllOf(HasSubstr("unknown engine behaviour \"sglang\""), HasSubstr("trtllm"), HasSubstr("vllm")));
  EXPECT_THAT(message(StepTimeModel::of(worker_with_profile("trtllm", "b200"))),
              AllOf(HasSubstr("unknown GPU \"b200\""), HasSubstr("h100, h200")));
  EXPECT_THAT(message(StepTimeModel::of(worker_with_profile("trtllm", "h200", "llama-405b"))),
              AllOf(HasSubstr("unknown model"), HasSubstr("llama-3.1-70b-fp8")));
  spec::WorkerSpec worker = worker_with_profile("trtllm", "h200", "llama-3.1-8b-fp8");
  worker.speculation.enabled = true;
  EXPECT_THAT(message(StepTimeModel::of(worker)), HasSubstr("no drafter \"eagle3\" for llama-3.1-8b-fp8"));
  worker.profile.reset();
  EXPECT_TRUE(resolve(worker)) << "for other models there is one";
  worker.speculation.drafter = "llama-3.1-8b-fp8";
  EXPECT_TRUE(resolve(worker));
  worker.speculation.drafter = "prompt_lookup";
  EXPECT_TRUE(resolve(worker)) << "the CPU engine's";
  worker.speculation.drafter = "eagel3";
  EXPECT_EQ(message(resolve(worker)),
            "worker worker-0: speculation.drafter: no drafter \"eagel3\"; did you mean eagle3? There are: eagle3, "
            "eagle3-llama-70b, llama-3.1-70b-fp8, llama-3.1-8b-fp8, prompt_lookup");
  worker.speculation.enabled = false;
  EXPECT_TRUE(resolve(worker));
  worker.speculation.enabled = true;
  worker.cpu.emplace();
  EXPECT_TRUE(resolve(worker)) << "the engine checks it";
  worker = worker_with_profile();
  worker.profile->set = {{"launch.fixd", 1}};
  EXPECT_THAT(message(StepTimeModel::of(worker)), AllOf(HasSubstr("launch.fixd"), HasSubstr("launch.fixed")));
  worker.profile->set = {{"kv_read.efficiency", 3}};
  EXPECT_THAT(message(StepTimeModel::of(worker)), HasSubstr("kv_read.efficiency = 3 is out of range"));
  worker.profile->set = {};
  worker.profile->file = "/nowhere/own.yaml";
  EXPECT_THAT(message(StepTimeModel::of(worker)), HasSubstr("/nowhere/own.yaml"));
}

}  // namespace
}  // namespace kvist::perfmodel::step_time_model_test
