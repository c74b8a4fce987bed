// Decoding sequences that are advanced together: the same steps, events and answers as one by one. A failure prints the
// seed that repeats it.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/scripted_executor.h"
#include "kvist/base/random.h"
#include "kvist/engine/core.h"

namespace kvist::engine::decode_run_test {
namespace {

/// A core, and what a caller knows of its requests who is told of the run.
class Engine {
 public:
  Engine(const CoreOptions& options, bool decode_runs)
      : executor_(decode_runs), core_(with(options, decode_runs), executor_) {}

  struct Answer {
    std::vector<TokenId> tokens;
    std::uint64_t count = 0;  // of tokens, those in the run included
    std::optional<FinishReason> finish;
    friend bool operator==(const Answer&, const Answer&) = default;
  };

  ScriptedExecutor& executor() { return executor_; }
  Core& core() { return core_; }
  [[nodiscard]] const StepOutputs& outputs() const { return outputs_; }
  [[nodiscard]] const std::map<RequestId, Answer>& answers() const { return answers_; }
  [[nodiscard]] bool busy() const { return !under_way_.empty(); }
  [[nodiscard]] std::uint64_t tokens_in_run() const { return tokens_in_run_; }

  std::optional<perfmodel::StepLoad> begin() {
    StepPlan plan;
    if (!core_.begin_step(TimePoint{}, plan)) return std::nullopt;
    EXPECT_EQ(plan.load.sequences, plan.sequences.size() + plan.in_run);
    under_way_.push_back(plan);
    return under_way_.back().load;
  }
  void end() {
    executor_.finish(under_way_.front(), result_);
    core_.end_step(under_way_.front(), result_, outputs_);
    under_way_.pop_front();
    take();
  }
  void look_between_steps() {
    core_.take_outputs(outputs_);
    take();
  }

 private:
  static CoreOptions with(CoreOptions options, bool decode_runs) {
    options.decode_runs = decode_runs;
    return options;
  }

  void take() {
    for (const RequestId id : outputs_.left_run) EXPECT_EQ(in_run_.erase(id), 1U) << "request " << id.value();
    for (const RequestId id : outputs_.joined_run) EXPECT_TRUE(in_run_.insert(id).second) << "request " << id.value();
    if (outputs_.in_run > 0) {
      EXPECT_EQ(outputs_.in_run, in_run_.size());
      for (const RequestId id : in_run_) ++answers_[id].count;
    }
    tokens_in_run_ += outputs_.in_run;
    auto next = outputs_.run_tokens.begin();
    for (const RequestOutput& output : outputs_.outputs) {
      EXPECT_FALSE(in_run_.contains(output.id)) << "request " << output.id.value();
      Answer& answer = answers_[output.id];
      EXPECT_FALSE(answer.finish) << "two ends";
      answer.tokens.insert(answer.tokens.end(), next, next + output.run_tokens);
      next += output.run_tokens;
      answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
      answer.count += output.tokens.size();
      answer.finish = output.finish;
      EXPECT_EQ(answer.tokens.size(), output.output_tokens) << "request " << output.id.value();
      EXPECT_EQ(answer.count, output.output_tokens) << "request " << output.id.value();
    }
    EXPECT_EQ(next, outputs_.run_tokens.end());
  }

  ScriptedExecutor executor_;
  Core core_;
  StepResult result_;
  StepOutputs outputs_;
  std::deque<StepPlan> under_way_;
  std::map<RequestId, Answer> answers_;
  std::set<RequestId> in_run_;
  std::uint64_t tokens_in_run_ = 0;
};

bool same_load(const perfmodel::StepLoad& a, const perfmodel::StepLoad& b) {
  return a.sequences == b.sequences && a.kv_tokens_read == b.kv_tokens_read && a.prefill_tokens == b.prefill_tokens &&
         a.prefill_pairs == b.prefill_pairs && a.decode_sequences == b.decode_sequences &&
         a.decode_kv_tokens == b.decode_kv_tokens && a.draft_tokens == b.draft_tokens;
}

bool same_counts(const CoreStats& a, const CoreStats& b) {
  return a.running == b.running && a.waiting == b.waiting && a.kv_blocks_used == b.kv_blocks_used &&
         a.steps == b.steps && a.prefill_steps == b.prefill_steps && a.mixed_steps == b.mixed_steps &&
         a.prefilled_tokens == b.prefilled_tokens && a.generated_tokens == b.generated_tokens &&
         a.preemptions == b.preemptions && a.prefill_backlog_tokens == b.prefill_backlog_tokens &&
         a.evictions == b.evictions && a.finished == b.finished && a.aborted == b.aborted;
}

/// The same random calls to an engine with runs and to one without.
class Pair {
 public:
  Pair(std::uint64_t seed, spec::AdmissionKind admission, bool plenty)
      : random_(mix_seed({seed, 7})),
        options_(draw_options(admission, plenty)),
        with_(options_, true),
        without_(options_, false) {}

  void run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      const std::int64_t choice = random_.uniform_int(0, 199);
      if (choice < 14) {
        submit();
      } else if (choice < 17) {
        abort();
      } else if (choice < 18) {
        change_budget();
      } else if (choice < 110) {
        begin();
      } else if (without_.busy()) {
        end();
      }
    }
    for (int steps = 0; !::testing::Test::HasFailure() && (begin() || without_.busy()); ++steps) {
      ASSERT_LT(steps, 20'000) << "it does not come to an end";
      if (without_.busy()) end();
    }
    EXPECT_TRUE(with_.core().idle());
    EXPECT_EQ(with_.answers(), without_.answers());
    EXPECT_EQ(with_.core().findable_blocks(), without_.core().findable_blocks());
    EXPECT_EQ(with_.executor().live(), 0U);
  }

  [[nodiscard]] std::uint64_t tokens_in_run() const { return with_.tokens_in_run(); }
  [[nodiscard]] CoreStats stats() const { return const_cast<Engine&>(without_).core().stats(); }

 private:
  CoreOptions draw_options(spec::AdmissionKind admission, bool plenty) {
    CoreOptions options;
    options.model = "m";
    options.block_size = static_cast<std::uint32_t>(random_.uniform_int(1, 9));
    options.max_model_len = 220;
    const std::uint32_t longest = options.max_model_len / options.block_size + 1;
    options.kv_blocks = plenty ? 10'000 : longest + static_cast<std::uint32_t>(random_.uniform_int(0, 2 * longest));
    options.max_batch_size = static_cast<std::uint32_t>(random_.uniform_int(1, 12));
    options.max_num_tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 60));
    options.max_waiting = 1'000;
    options.max_steps_in_flight = static_cast<std::uint32_t>(random_.uniform_int(1, 2));
    options.admission = admission;
    options.prefix_deferral = random_.uniform() < 0.3;
    options.prefix_when_planned = random_.uniform() < 0.3;
    if (random_.uniform() < 0.3)
      options.long_prefill_token_threshold = static_cast<std::uint32_t>(random_.uniform_int(1, 40));
    return options;
  }

  void submit() {
    Request request;
    request.id = RequestId(++last_id_);
    request.seed = static_cast<std::uint64_t>(random_.uniform_int(0, 3));  // twins are frequent
    request.max_tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 120));
    request.ignore_eos = random_.uniform() < 0.3;
    const std::int64_t tokens = random_.uniform_int(1, 80);
    for (std::int64_t i = 0; i < tokens; ++i)
      request.prompt.emplace_back(static_cast<std::uint32_t>(i < 30 ? i : random_.uniform_int(0, 9)));
    const auto length = static_cast<std::uint32_t>(random_.uniform_int(1, 150));
    for (Engine* const engine : {&with_, &without_}) {
      engine->executor().set_length(request.id, length);
      (void)engine->core().submit(request);
    }
  }
  void abort() {
    const RequestId id(static_cast<std::uint64_t>(random_.uniform_int(1, static_cast<std::int64_t>(last_id_) + 1)));
    const bool look = random_.uniform() < 0.5;
    for (Engine* const engine : {&with_, &without_}) {
      engine->core().abort(id);
      if (look) engine->look_between_steps();
    }
    EXPECT_EQ(with_.outputs().events, without_.outputs().events);
    compare();
  }
  void change_budget() {
    const auto tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 60));
    with_.core().set_max_num_tokens(tokens);
    without_.core().set_max_num_tokens(tokens);
  }
  bool begin() {
    const auto a = with_.begin();
    const auto b = without_.begin();
    EXPECT_EQ(a.has_value(), b.has_value());
    EXPECT_TRUE(!a || !b || same_load(*a, *b)) << "step " << without_.core().stats().steps;
    return b.has_value();
  }
  void end() {
    with_.end();
    without_.end();
    EXPECT_EQ(with_.outputs().events, without_.outputs().events);
    compare();
  }
  void compare() {
    EXPECT_TRUE(same_counts(with_.core().stats(), without_.core().stats()));
    for (const auto& [id, answer] : without_.answers()) {
      const auto found = with_.answers().find(id);
      ASSERT_NE(found, with_.answers().end());
      ASSERT_EQ(found->second.count, answer.count) << "request " << id.value();
      ASSERT_EQ(found->second.finish, answer.finish) << "request " << id.value();
    }
    compare_views();
  }
  void compare_views() {
    CoreView a;
    CoreView b;
    with_.core().look(a);
    without_.core().look(b);
    ASSERT_EQ(a.running.size(), b.running.size());
    for (std::size_t i = 0; i < a.running.size(); ++i) {
      EXPECT_EQ(a.running[i].request->id, b.running[i].request->id);
      EXPECT_EQ(a.running[i].known, b.running[i].known);
      EXPECT_EQ(a.running[i].planned, b.running[i].planned);
      EXPECT_EQ(a.running[i].committed_blocks, b.running[i].committed_blocks);
    }
  }

  RandomStream random_;
  CoreOptions options_;
  Engine with_;
  Engine without_;
  std::uint64_t last_id_ = 0;
};

struct Case {
  spec::AdmissionKind admission;
  bool plenty;
};

class DecodeRunProperty : public ::testing::TestWithParam<Case> {};

TEST_P(DecodeRunProperty, GivesWhatStepsGiveOneByOne) {
  std::uint64_t in_run = 0;
  std::uint64_t generated = 0;
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair pair(seed, GetParam().admission, GetParam().plenty);
    pair.run(600);
    if (HasFailure()) return;
    in_run += pair.tokens_in_run();
    generated += pair.stats().generated_tokens;
    preemptions += pair.stats().preemptions;
  }
  EXPECT_GT(in_run, generated / 5) << "hardly anything was in a run";
  const bool preempts = GetParam().admission == spec::AdmissionKind::kGreedy && !GetParam().plenty;
  EXPECT_EQ(preemptions > 30, preempts) << preemptions;
}

INSTANTIATE_TEST_SUITE_P(All, DecodeRunProperty,
                         ::testing::Values(Case{spec::AdmissionKind::kReserveToCompletion, true},
                                           Case{spec::AdmissionKind::kReserveToCompletion, false},
                                           Case{spec::AdmissionKind::kGreedy, true},
                                           Case{spec::AdmissionKind::kGreedy, false}),
                         [](const auto& of) {
                           return std::string(of.param.admission == spec::AdmissionKind::kGreedy ? "Greedy"
                                                                                                 : "Reserving") +
                                  (of.param.plenty ? "WithBlocksForEveryone" : "WithScarceBlocks");
                         });

// An answer of 100 tokens beside nobody: its blocks are four tokens, so 25 steps of 100 touch it.
TEST(DecodeRun, TellsTheTokensOfARunInOnePiece) {
  CoreOptions options{.model = "m", .block_size = 4, .kv_blocks = 100, .max_model_len = 300};
  Engine engine(options, true);
  Request request;
  request.id = RequestId(1);
  request.prompt.assign(10, TokenId(5));
  request.max_tokens = 100;
  ASSERT_TRUE(engine.core().submit(request));
  int outputs = 0;
  while (engine.begin()) {
    engine.end();
    outputs += static_cast<int>(engine.outputs().outputs.size());
  }
  EXPECT_EQ(outputs, 2);  // the first token, and the last with 98 before it
  EXPECT_EQ(engine.answers().at(RequestId(1)).tokens.size(), 100U);
  EXPECT_EQ(engine.tokens_in_run(), 98U);
}

// Without a source of answers the option changes nothing.
TEST(DecodeRun, NeedsAnswersThatAreKnownAhead) {
  ScriptedExecutor executor(false);
  Core core({.model = "m", .block_size = 4, .kv_blocks = 100, .max_model_len = 300, .decode_runs = true}, executor);
  Request request;
  request.id = RequestId(1);
  request.prompt.assign(10, TokenId(5));
  ASSERT_TRUE(core.submit(request));
  StepPlan plan;
  while (core.begin_step(TimePoint{}, plan)) {
    EXPECT_EQ(plan.in_run, 0U);
    EXPECT_EQ(plan.sequences.size(), 1U);
    StepResult result;
    StepOutputs outputs;
    executor.finish(plan, result);
    core.end_step(plan, result, outputs);
    EXPECT_EQ(outputs.outputs.size(), 1U);
  }
}

}  // namespace
}  // namespace kvist::engine::decode_run_test
