// Random loads on tiny pools under every combination of admission, deferral, drafts and depth, compared with an engine
// with room for all. A failure prints the seed that repeats it.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/base/random.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_pressure_property_test {
namespace {

/// Drafts from 0 to 4, another length each step.
class RandomDraftLength final : public SpeculationPolicy {
 public:
  explicit RandomDraftLength(std::uint64_t seed) : random_(seed) {}
  std::uint32_t draft_length(const perfmodel::StepLoad& plain) override {
    EXPECT_GT(plain.decode_sequences, 0U);
    return static_cast<std::uint32_t>(random_.uniform_int(0, 4));
  }
  void on_verified(std::uint32_t drafted, std::uint32_t accepted) override { EXPECT_LE(accepted, drafted); }

 private:
  RandomStream random_;
};

class PressedRun {
 public:
  PressedRun(std::uint64_t seed, spec::AdmissionKind admission)
      : random_(mix_seed({seed, 1})),
        names_(mix_seed({seed, 3})),
        options_(draw_options(admission)),
        drafts_(random_.uniform() < 0.5) {
    executor_.set_accepted(static_cast<std::uint32_t>(random_.uniform_int(0, 3)));
    driver_ = std::make_unique<SteppedCore>(
        options_, executor_, drafts_ ? std::make_unique<RandomDraftLength>(mix_seed({seed, 2})) : nullptr);
  }

  void run() {
    for (int i = 0; i < 300 && !::testing::Test::HasFatalFailure(); ++i) {
      const std::int64_t choice = random_.uniform_int(0, 99);
      if (choice < 25) {
        submit();
      } else if (choice < 28) {
        abort();
      } else if (choice < 65) {
        driver_->begin();
      } else if (!driver_->under_way.empty()) {
        end();
      }
    }
    for (int steps = 0; driver_->begin() || !driver_->under_way.empty(); ++steps) {
      ASSERT_LT(steps, 20'000) << "it does not come to an end";
      if (!driver_->under_way.empty()) end();
      if (::testing::Test::HasFatalFailure()) return;
    }
    driver_->run_until_idle();
    check_end();
  }
  [[nodiscard]] CoreStats stats() const { return driver_->core.stats(); }

 private:
  CoreOptions draw_options(spec::AdmissionKind admission) {
    CoreOptions options;
    options.model = "m";
    options.block_size = static_cast<std::uint32_t>(random_.uniform_int(1, 5));
    options.max_model_len = static_cast<std::uint32_t>(random_.uniform_int(20, 90));
    // From just enough for the longest request to about three of them.
    const std::uint32_t longest = (options.max_model_len + options.block_size - 1) / options.block_size;
    options.kv_blocks = longest + static_cast<std::uint32_t>(random_.uniform_int(0, 2 * longest));
    options.max_batch_size = static_cast<std::uint32_t>(random_.uniform_int(1, 8));
    options.max_num_tokens = options.max_batch_size + static_cast<std::uint32_t>(random_.uniform_int(0, 30));
    options.max_waiting = 10'000;
    options.max_steps_in_flight = static_cast<std::uint32_t>(random_.uniform_int(1, 2));
    options.admission = admission;
    options.tells_tokens = names_.uniform() < 0.5;
    options.prefix_deferral = random_.uniform() < 0.3;
    options.prefix_when_planned = random_.uniform() < 0.3;
    if (random_.uniform() < 0.3)
      options.long_prefill_token_threshold = static_cast<std::uint32_t>(random_.uniform_int(1, 40));
    return options;
  }

  void submit() {
    Request request;
    request.id = RequestId(requests_.size() + 1);
    request.seed = static_cast<std::uint64_t>(random_.uniform_int(0, 5));
    request.max_tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 50));
    const auto tokens = random_.uniform_int(1, options_.max_model_len - 1);
    const auto kind = static_cast<std::uint32_t>(random_.uniform_int(0, 2));  // many prompts share their start
    for (std::int64_t i = 0; i < tokens; ++i) {
      request.prompt.emplace_back(1'000 * kind + static_cast<std::uint32_t>(i < 15 ? i : random_.uniform_int(0, 1)));
    }
    if (random_.uniform() < 0.7) {
      lengths_[request.id] = static_cast<std::uint32_t>(random_.uniform_int(1, 60));
      executor_.set_length(request.id, lengths_[request.id]);
    }
    requests_.push_back(request);
    if (!options_.tells_tokens && names_.uniform() < 0.8) name_blocks(request);
    ASSERT_TRUE(driver_->core.submit(std::move(request)));
  }

  /// Leaves of the tokens only those behind the last whole block.
  void name_blocks(Request& request) {
    const kv::BlockHash root = kv::root_hash({.model = options_.model, .lora = "", .cache_salt = ""});
    auto blocks = kv::hash_blocks(root, request.prompt, options_.block_size);
    request.named_tokens = static_cast<std::uint32_t>(blocks.size()) * options_.block_size;
    request.prompt.erase(request.prompt.begin(), request.prompt.begin() + request.named_tokens);
    request.prompt_blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(blocks));
  }

  void abort() {
    if (requests_.empty()) return;
    const auto at = static_cast<std::size_t>(random_.uniform_int(0, std::ssize(requests_) - 1));
    driver_->core.abort(requests_[at].id);
    driver_->take_outputs();
  }

  void end() {
    driver_->end();
    driver_->check_events();
    EXPECT_LE(executor_.live(), options_.max_batch_size);
  }

  void check_end() {
    EXPECT_EQ(executor_.live(), 0U);
    EXPECT_EQ(driver_->seen.size(), requests_.size());
    for (const Request& request : requests_) {
      const Seen& seen = driver_->seen[request.id];
      ASSERT_TRUE(seen.finish) << "request " << request.id.value() << " never ended";
      if (*seen.finish == FinishReason::kAborted) continue;
      expect_answer_of_an_idle_engine(request, seen);
    }
    const CoreStats stats = driver_->core.stats();
    EXPECT_EQ(stats.finished + stats.aborted, requests_.size());
    EXPECT_EQ(stats.prefill_backlog_tokens, 0U);
    EXPECT_LE(stats.accepted_draft_tokens, stats.draft_tokens);
    if (options_.admission == spec::AdmissionKind::kReserveToCompletion) {
      EXPECT_EQ(stats.preemptions, 0U);
    }
    // First come, first served: nobody starts before one who came earlier.
    if (!options_.prefix_deferral) {
      EXPECT_TRUE(std::ranges::is_sorted(executor_.admitted()));
    }
  }

  void expect_answer_of_an_idle_engine(const Request& request, const Seen& seen) {
    CoreOptions options = options_;
    options.kv_blocks = 1'000;
    options.max_steps_in_flight = 1;
    options.tells_tokens = true;
    options.admission = spec::AdmissionKind::kReserveToCompletion;
    ScriptedExecutor executor;
    if (const auto length = lengths_.find(request.id); length != lengths_.end()) {
      executor.set_length(request.id, length->second);
    }
    SteppedCore alone(options, executor);
    ASSERT_TRUE(alone.core.submit(request));
    alone.run_until_idle();
    EXPECT_EQ(seen.tokens, alone.seen[request.id].tokens) << request.id.value();
    EXPECT_EQ(*seen.finish, *alone.seen[request.id].finish) << request.id.value();
  }

  RandomStream random_;
  RandomStream names_;  // what is told of tokens
  CoreOptions options_;
  bool drafts_;
  ScriptedExecutor executor_;
  std::unique_ptr<SteppedCore> driver_;
  std::vector<Request> requests_;
  std::map<RequestId, std::uint32_t> lengths_;
};

TEST(CorePressureProperty, GreedyAdmissionGivesTheAnswersOfAnIdleEngine) {
  std::uint64_t preemptions = 0;
  std::uint64_t drafts = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PressedRun run(seed, spec::AdmissionKind::kGreedy);
    run.run();
    if (testing::Test::HasFailure()) return;
    preemptions += run.stats().preemptions;
    drafts += run.stats().draft_tokens;
  }
  EXPECT_GT(preemptions, 500U);  // or there was no pressure
  EXPECT_GT(drafts, 1'000U);
}

TEST(CorePressureProperty, ReservationGivesTheAnswersOfAnIdleEngine) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PressedRun run(seed, spec::AdmissionKind::kReserveToCompletion);
    run.run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvist::engine::core_pressure_property_test
