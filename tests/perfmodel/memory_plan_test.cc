#include "kvist/perfmodel/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/perfmodel/step_time_model.h"
#include "perfmodel/worker_with_profile.h"

namespace kvist::perfmodel::memory_plan_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kGiB = 1024.0 * 1024 * 1024;

MemoryPlan plan_of(const spec::WorkerSpec& worker) {
  auto plan = make_memory_plan(worker);
  EXPECT_TRUE(plan.has_value()) << message(plan);
  return *plan;
}

/// 2 x H100 with 70B and the 8B drafter: the published plan's replica.
spec::WorkerSpec published_replica() {
  spec::WorkerSpec worker = worker_with_profile("trtllm", "h100", "llama-3.1-70b-fp8", 2);
  worker.max_num_tokens = 16'384;
  worker.speculation.enabled = true;
  worker.speculation.drafter = "llama-3.1-8b-fp8";
  worker.profile->memory_fraction = 0.85;
  return worker;
}

// vLLM logs the memory that it leaves for KV and the tokens that fit. The larger figure is for a utilisation of 0.95
// and 8,192 batched tokens, the smaller for 0.90 and 16,384: their difference is 0.05 of the memory and the activations
// of 8,192 tokens.
TEST(MemoryPlan, GivesWhatVllmLogs) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  worker.block_size = 16;
  worker.profile->memory_fraction = 0.95;
  worker.max_num_tokens = 8'192;
  MemoryPlan plan = plan_of(worker);
  EXPECT_NEAR(plan.kv_bytes / kGiB, 61.79, 0.1);
  EXPECT_NEAR(static_cast<double>(plan.kv_tokens()), 405'000, 1'000);
  worker.profile->memory_fraction = 0.90;
  worker.max_num_tokens = 16'384;
  plan = plan_of(worker);
  EXPECT_NEAR(plan.kv_bytes / kGiB, 53.15, 0.1);
  EXPECT_NEAR(static_cast<double>(plan.kv_tokens()), 348'000, 1'000);
}

TEST(MemoryPlan, GivesTheEstimateOfTensorRtLlm) {
  spec::WorkerSpec worker = worker_with_profile("trtllm");
  worker.max_num_tokens = 16'384;
  EXPECT_NEAR(static_cast<double>(plan_of(worker).kv_tokens()), 370'000, 3'700);
  EXPECT_EQ(plan_of(worker).fraction, 0.9) << "the engine's default";
}

TEST(MemoryPlan, TheFractionHasTwoMeanings) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  worker.profile->memory_fraction = 0.9;
  worker.profile->memory_meaning = spec::MemoryMeaning::kOfTotal;
  const MemoryPlan total = plan_of(worker);
  worker.profile->memory_meaning = spec::MemoryMeaning::kOfFree;
  const MemoryPlan free = plan_of(worker);
  const double taken = total.weight_bytes + total.context_bytes + total.activation_bytes;
  EXPECT_NEAR(total.kv_bytes, 0.9 * total.total_bytes - taken, 1);
  EXPECT_NEAR(free.kv_bytes, 0.9 * (free.total_bytes - taken), 1);
  EXPECT_GT(free.kv_bytes, total.kv_bytes);
}

TEST(MemoryPlan, CountsTheDrafterTwice) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  const MemoryPlan alone = plan_of(worker);
  worker.speculation.enabled = true;
  const MemoryPlan with = plan_of(worker);
  EXPECT_EQ(alone.drafter_weight_bytes, 0);
  EXPECT_EQ(with.drafter_weight_bytes, 2.81e9);
  EXPECT_EQ(with.kv_bytes_per_token + with.drafter_kv_bytes_per_token, 165'888) << "one layer more";
  EXPECT_LT(with.kv_blocks, alone.kv_blocks);
}

TEST(MemoryPlan, TensorParallelSplitsWeightsAndKv) {
  const MemoryPlan one = plan_of(worker_with_profile("vllm", "h200", "llama-3.1-70b-fp8", 1));
  const MemoryPlan two = plan_of(worker_with_profile("vllm", "h200", "llama-3.1-70b-fp8", 2));
  EXPECT_EQ(two.weight_bytes, one.weight_bytes / 2);
  EXPECT_EQ(two.kv_bytes_per_token, 81'920);
  EXPECT_GT(two.kv_tokens(), 3 * one.kv_tokens());
  spec::WorkerSpec half = worker_with_profile("vllm");
  half.profile->kv_dtype = spec::KvDtype::kFp16;
  EXPECT_NEAR(static_cast<double>(plan_of(half).kv_tokens()), static_cast<double>(one.kv_tokens()) / 2, 32);
}

TEST(MemoryPlan, SequencesTakeWholeBlocks) {
  MemoryPlan plan;
  plan.block_size = 32;
  plan.kv_blocks = 100;
  EXPECT_EQ(plan.sequences(32), 100U);
  EXPECT_EQ(plan.sequences(33), 50U);
  EXPECT_EQ(plan.sequences(3'201), 0U);
}

TEST(MemoryPlan, OutOfMemoryNamesTheNextFractionThatWorks) {
  // The risk that the plan names: two models loaded at once may need more activations than estimated. With a worst step
  // of 8.4 GB instead of 2.2 GB, 85 % of the free memory for KV leave too little for it; 80 % leave enough.
  spec::WorkerSpec worker = published_replica();
  EXPECT_TRUE(plan_of(worker).fits());
  worker.profile->set = {{"memory.activation_peak", 3.8}};
  const MemoryPlan plan = plan_of(worker);
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(smaller_fraction_that_fits(worker, plan).value(), 0.80);
  EXPECT_THAT(message(check_memory(worker, plan)),
              AllOf(HasSubstr("llama-3.1-70b-fp8 on h100 (2 GPUs) would run out of memory"),
                    HasSubstr("fraction of 0.85"), HasSubstr("a memory fraction of 0.80 fits")));
  EXPECT_THAT(message(resolve(worker)), AllOf(HasSubstr("worker worker-0: "), HasSubstr("0.80 fits")));
  worker.profile->memory_fraction = 0.80;
  EXPECT_TRUE(resolve(worker).has_value());
}

TEST(MemoryPlan, WhereNoFractionHelpsTheErrorSaysSo) {
  spec::WorkerSpec worker = worker_with_profile("vllm", "h100");
  worker.max_num_tokens = 16'384;
  EXPECT_THAT(message(resolve(worker)),
              AllOf(HasSubstr("nothing is left for KV blocks"), HasSubstr("weights 72.7 GB")));
  worker = published_replica();
  worker.profile->set = {{"memory.activation_peak", 100}};
  EXPECT_THAT(message(resolve(worker)), HasSubstr("no smaller memory fraction fits"));
}

TEST(Resolve, FillsInWhatTheFileLeftOpen) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  const auto resolved = resolve(worker);
  ASSERT_TRUE(resolved.has_value()) << message(resolved);
  EXPECT_EQ(resolved->admission, spec::AdmissionKind::kGreedy);
  EXPECT_EQ(resolved->kv_blocks, plan_of(worker).kv_blocks);
  EXPECT_EQ(resolved->max_model_len, 16'384U);
  EXPECT_EQ(resolved->open, spec::OpenSettings{});
  EXPECT_EQ(resolve(*resolved).value(), *resolved) << "resolving twice changes nothing";
  EXPECT_EQ(resolve(worker_with_profile("trtllm")).value().max_steps_in_flight, 2U);
}

TEST(Resolve, LeavesWhatTheFileSays) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  worker.open = {};
  worker.kv_blocks = 77;
  worker.max_model_len = 1'000;
  EXPECT_EQ(resolve(worker).value(), worker);
  EXPECT_EQ(resolve(spec::WorkerSpec{}).value(), spec::WorkerSpec{}) << "no profile";
}

TEST(Resolve, ARequestMustFitTheMemory) {
  spec::WorkerSpec worker = worker_with_profile("vllm");
  worker.open.max_model_len = false;
  worker.max_model_len = 1'000'000;
  EXPECT_THAT(message(resolve(worker)), AllOf(HasSubstr("max_model_len"), HasSubstr("1000000 tokens does not fit")));
  worker = worker_with_profile("vllm");
  worker.max_num_tokens = 268'000;  // activations take nearly all of the pool
  const auto tight = resolve(worker);
  ASSERT_TRUE(tight.has_value()) << message(tight);
  EXPECT_LT(tight->max_model_len, 16'384U) << "an open length shrinks to what fits";
}

}  // namespace
}  // namespace kvist::perfmodel::memory_plan_test
