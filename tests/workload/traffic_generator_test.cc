#include "kvist/workload/traffic_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "kvist/workload/trace_file.h"

namespace kvist::workload::traffic_generator_test {
namespace {

using ::testing::HasSubstr;

TrafficOptions options_of(TrafficKind kind) {
  return {.kind = kind, .seed = 7, .starts_per_s = kind == TrafficKind::kAgents ? 0.5 : 5};
}

class EveryTraffic : public ::testing::TestWithParam<TrafficKind> {};

TEST_P(EveryTraffic, IsSeededAndAFile) {
  TrafficOptions options = options_of(GetParam());
  const Trace trace = generate_traffic(options).value();
  EXPECT_EQ(generate_traffic(options).value(), trace);
  EXPECT_EQ(parse_trace(trace_text(trace), "generated").value(), trace);
  options.seed = 8;
  EXPECT_NE(generate_traffic(options).value(), trace);
}

TEST_P(EveryTraffic, IdsCountUpAndCoverThePrompt) {
  const TrafficOptions options = options_of(GetParam());
  const Trace trace = generate_traffic(options).value();
  ASSERT_GT(trace.requests.size(), 1'000U);
  EXPECT_EQ(trace.requests.front().at, Duration(0));
  std::uint64_t next_id = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    EXPECT_GE(request.at, trace.requests[i == 0 ? 0 : i - 1].at);
    EXPECT_LT(request.at, options.duration);
    EXPECT_EQ(request.hash_ids.size(), (request.input_tokens + 511) / 512);
    EXPECT_GE(request.output_tokens, 1U);
    for (const std::uint64_t id : request.hash_ids) {
      ASSERT_LE(id, next_id);
      next_id = std::max(next_id, id + 1);
    }
  }
}

// The end of a prompt is unique: only complete blocks are shared, each with the same parent everywhere.
TEST_P(EveryTraffic, EachIdHasOneParent) {
  const Trace trace = generate_traffic(options_of(GetParam())).value();
  std::map<std::uint64_t, std::uint64_t> parents;
  std::set<std::uint64_t> ends;
  for (const TraceRequest& request : trace.requests) {
    for (std::size_t i = 1; i < request.hash_ids.size(); ++i) {
      const auto [entry, is_new] = parents.try_emplace(request.hash_ids[i], request.hash_ids[i - 1]);
      ASSERT_TRUE(is_new || entry->second == request.hash_ids[i - 1]);
    }
    if (request.input_tokens % 512 == 0) continue;
    EXPECT_TRUE(ends.insert(request.hash_ids.back()).second);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryTraffic, ::testing::ValuesIn(kTrafficKinds),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

/// Of all blocks of prompts, how many an earlier prompt had: the hit rate of a cache without bounds.
double repeated_share(const Trace& trace) {
  std::set<std::uint64_t> seen;
  std::size_t all = 0;
  std::size_t repeated = 0;
  for (const TraceRequest& request : trace.requests) {
    for (const std::uint64_t id : request.hash_ids) repeated += seen.insert(id).second ? 0 : 1;
    all += request.hash_ids.size();
  }
  return static_cast<double>(repeated) / static_cast<double>(all);
}

TEST(TrafficGenerator, KindsDifferInWhatTheirPromptsShare) {
  const auto share = [](TrafficKind kind) { return repeated_share(generate_traffic(options_of(kind)).value()); };
  EXPECT_DOUBLE_EQ(share(TrafficKind::kLongPrompts), 0);
  EXPECT_DOUBLE_EQ(share(TrafficKind::kReasoning), 0);
  EXPECT_DOUBLE_EQ(share(TrafficKind::kRetrievalQuestionFirst), 0);
  EXPECT_GT(share(TrafficKind::kRetrieval), 0.9);
  EXPECT_GT(share(TrafficKind::kAgents), 0.9);
  EXPECT_GT(share(TrafficKind::kCodeCompletion), 0.7);
}

TEST(TrafficGenerator, LongPromptsHaveAHeavyTail) {
  const Trace trace = generate_traffic(options_of(TrafficKind::kLongPrompts)).value();
  std::vector<std::uint32_t> lengths;
  for (const TraceRequest& request : trace.requests) lengths.push_back(request.input_tokens);
  std::ranges::sort(lengths);
  EXPECT_NEAR(lengths[lengths.size() / 2], 4'000, 400);
  EXPECT_NEAR(lengths[lengths.size() * 95 / 100], 4'000 * std::exp(1.3 * 1.645), 8'000);
  EXPECT_LE(lengths.back(), 128'000U);
}

// Two conversations hardly ever ask at the same millisecond.
TEST(TrafficGenerator, AgentsBranchIntoThree) {
  const Trace trace = generate_traffic({.kind = TrafficKind::kAgents, .seed = 7, .starts_per_s = 0.05}).value();
  std::map<Duration, std::vector<const TraceRequest*>> at_once;
  for (const TraceRequest& request : trace.requests) at_once[request.at].push_back(&request);
  std::size_t branchings = 0;
  for (const auto& [at, requests] : at_once) {
    if (requests.size() != 3) continue;
    ++branchings;
    // Each has a task of its own behind what was said so far.
    const auto shared =
        (std::min({requests[0]->input_tokens, requests[1]->input_tokens, requests[2]->input_tokens}) - 500) / 512;
    for (std::size_t i = 0; i < shared; ++i) {
      EXPECT_EQ(requests[1]->hash_ids[i], requests[0]->hash_ids[i]);
      EXPECT_EQ(requests[2]->hash_ids[i], requests[0]->hash_ids[i]);
    }
    EXPECT_NE(requests[0]->hash_ids.back(), requests[1]->hash_ids.back());
  }
  // One turn in ten branches, and a branch has two and a half turns on average: of 100 turns 10 become 75.
  EXPECT_NEAR(static_cast<double>(branchings) / static_cast<double>(trace.requests.size()), 10 / 165.0, 0.02);
}

TEST(TrafficGenerator, ShortAnswersAskTheFirstInstructionMost) {
  const Trace trace = generate_traffic(options_of(TrafficKind::kShortAnswers)).value();
  std::map<std::uint64_t, double> asked;
  for (const TraceRequest& request : trace.requests) {
    asked[request.hash_ids.front()] += 1 / static_cast<double>(trace.requests.size());
    EXPECT_LE(request.output_tokens, 16U);
  }
  ASSERT_EQ(asked.size(), 4U);
  std::vector<double> shares;
  for (const auto& [id, share] : asked) shares.push_back(share);
  std::ranges::sort(shares, std::greater<>());
  EXPECT_NEAR(shares[0], 0.48, 0.04);
  EXPECT_NEAR(shares[3], 0.12, 0.03);
}

// Of Mooncake's trace: 3,993 requests in 1,022 s, prompts of 15,325 on average, a quarter up to 277, half up to 11,587,
// 95 % up to 49,009, answers of 149; 65 % of all prompt tokens occurred before, in 45 % of the requests.
TEST(TrafficGenerator, DocumentsHaveTheStatisticsOfMooncakesTrace) {
  for (const std::uint64_t seed : {11, 12, 13}) {
    SCOPED_TRACE(seed);
    const Trace trace = generate_traffic({.kind = TrafficKind::kDocuments,
                                          .seed = seed,
                                          .starts_per_s = 2.14,
                                          .duration = std::chrono::seconds(1'022)})
                            .value();
    const auto size = trace.requests.size();
    EXPECT_NEAR(static_cast<double>(size), 3'993, 400);
    std::vector<std::uint32_t> inputs;
    double answers = 0;
    std::set<std::uint64_t> seen;
    int returning = 0;
    for (const TraceRequest& request : trace.requests) {
      inputs.push_back(request.input_tokens);
      answers += request.output_tokens;
      returning += seen.contains(request.hash_ids.front()) ? 1 : 0;
      seen.insert(request.hash_ids.begin(), request.hash_ids.end());
    }
    std::ranges::sort(inputs);
    const auto share = [&](double part) { return inputs[static_cast<std::size_t>(part * static_cast<double>(size))]; };
    EXPECT_NEAR(std::accumulate(inputs.begin(), inputs.end(), 0.0) / static_cast<double>(size), 15'325, 2'300);
    EXPECT_NEAR(share(0.25), 277, 170);
    EXPECT_NEAR(share(0.5), 11'587, 3'000);
    EXPECT_NEAR(share(0.95), 49'009, 7'000);
    EXPECT_NEAR(answers / static_cast<double>(size), 149, 25);
    EXPECT_NEAR(returning / static_cast<double>(size), 0.45, 0.05);
    EXPECT_NEAR(repeated_share(trace), 0.65, 0.05);
  }
}

TEST(TrafficGenerator, ErrorsNameTheProblem) {
  TrafficOptions options;
  options.starts_per_s = 0;
  EXPECT_THAT(generate_traffic(options).error().message, HasSubstr("above 0"));
  options.starts_per_s = 1e6;
  EXPECT_THAT(generate_traffic(options).error().message, HasSubstr("at most 1000000"));
  EXPECT_FALSE(parse_traffic_kind("chatter").has_value());
}

}  // namespace
}  // namespace kvist::workload::traffic_generator_test
