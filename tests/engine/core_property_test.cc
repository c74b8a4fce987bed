// Random requests and aborts against a naive model. A failure prints the seed that repeats it.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/driver.h"
#include "engine/naive_model.h"
#include "engine/scripted_executor.h"
#include "kvist/base/random.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_property_test {
namespace {

/// One random life of an engine.
class RandomRun {
 public:
  RandomRun(std::uint64_t seed, bool plenty_of_blocks)
      : random_(seed),
        plenty_(plenty_of_blocks),
        options_(draw_options()),
        driver_(options_, executor_),
        naive_(options_) {}

  void run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFatalFailure(); ++i) {
      const std::int64_t choice = random_.uniform_int(0, 99);
      if (choice < 30) {
        submit();
      } else if (choice < 37) {
        abort();
      } else if (choice < 70) {
        begin();
      } else if (!driver_.under_way.empty()) {
        end();
      }
    }
    while (begin() || !driver_.under_way.empty()) {
      if (!driver_.under_way.empty()) end();
      if (::testing::Test::HasFatalFailure()) return;
    }
    driver_.run_until_idle();
    check_end();
  }

  /// Everything that came out, for comparing runs.
  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t digest = 0;
    const auto add = [&digest](std::uint64_t value) { digest = mix_seed({digest, value}); };
    for (const StepPlan& plan : driver_.plans) {
      for (const SequenceStep& step : plan.sequences) add(mix_seed({step.id.value(), step.first, step.count}));
    }
    for (const auto& [id, seen] : driver_.seen) {
      for (const TokenId token : seen.tokens) add(token.value());
    }
    for (const kv::KvEvent& event : driver_.events) {
      add(event.index());
      if (const auto* stored = std::get_if<kv::BlockStored>(&event)) add(stored->hashes.front().value());
      if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) add(removed->hashes.front().value());
    }
    return digest;
  }
  [[nodiscard]] const CoreStats stats() const { return driver_.core.stats(); }

 private:
  CoreOptions draw_options() {
    CoreOptions options;
    options.model = "m";
    options.block_size = static_cast<std::uint32_t>(random_.uniform_int(1, 6));
    options.max_model_len = static_cast<std::uint32_t>(random_.uniform_int(30, 90));
    const std::uint32_t longest = options.max_model_len / options.block_size + 1;
    options.kv_blocks = plenty_ ? 10'000 : longest + static_cast<std::uint32_t>(random_.uniform_int(0, 2 * longest));
    options.max_batch_size = static_cast<std::uint32_t>(random_.uniform_int(1, 8));
    options.max_num_tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 60));
    options.max_waiting = 1'000;
    options.max_steps_in_flight = static_cast<std::uint32_t>(random_.uniform_int(1, 2));
    return options;
  }

  void submit() {
    Request request;
    request.id = RequestId(++last_id_);
    request.seed = static_cast<std::uint64_t>(random_.uniform_int(0, 3));  // twins are frequent
    request.max_tokens = static_cast<std::uint32_t>(random_.uniform_int(1, 30));
    request.ignore_eos = random_.uniform() < 0.2;
    if (random_.uniform() < 0.2) request.cache_salt = "salt";
    request.prompt = draw_prompt();
    const auto length = static_cast<std::uint32_t>(random_.uniform_int(1, 40));
    executor_.set_length(request.id, length);
    if (request.prompt.size() >= options_.max_model_len) {
      EXPECT_FALSE(driver_.core.submit(request));
      return;
    }
    naive_.submit(request, length);
    prompts_.push_back(request.prompt);
    ASSERT_TRUE(driver_.core.submit(std::move(request)));
  }

  // A shared start, or an earlier prompt and what followed it, and some new tokens.
  std::vector<TokenId> draw_prompt() {
    std::vector<TokenId> prompt;
    if (!prompts_.empty() && random_.uniform() < 0.6) {
      const std::size_t at = static_cast<std::size_t>(random_.uniform_int(0, std::ssize(prompts_) - 1));
      prompt = prompts_[at];
      const auto seed = static_cast<std::uint64_t>(random_.uniform_int(0, 3));
      const std::int64_t answer = random_.uniform_int(0, 12);
      for (std::uint32_t i = 0; i < answer; ++i) prompt.push_back(scripted_token(seed, i));
    }
    const std::int64_t more = random_.uniform_int(1, 20);
    for (std::int64_t i = 0; i < more; ++i) {
      prompt.emplace_back(static_cast<std::uint32_t>(i < 8 ? random_.uniform_int(0, 1) : random_.uniform_int(0, 9)));
    }
    return prompt;
  }

  void abort() {
    if (last_id_ == 0) return;
    const RequestId id(static_cast<std::uint64_t>(random_.uniform_int(1, static_cast<std::int64_t>(last_id_))));
    if (driver_.seen.contains(id) && driver_.seen[id].finish) return;
    driver_.core.abort(id);
    naive_.abort(id);
    naive_.on_boundary();
    if (random_.uniform() < 0.5) driver_.take_outputs();
  }

  bool begin() {
    if (!driver_.begin()) return false;
    naive_.on_plan(driver_.plans.back());
    // With blocks for everyone, nothing but slots and budget holds a request back.
    EXPECT_TRUE(!plenty_ || !naive_.blocked());
    return true;
  }

  void end() {
    naive_.on_end(driver_.under_way.front().first);
    driver_.end();
    driver_.check_events();
    EXPECT_LE(executor_.live(), options_.max_batch_size);
  }

  void check_end() {
    std::uint64_t cached = 0;
    std::uint64_t prompts = 0;
    for (std::uint64_t i = 1; i <= last_id_; ++i) {
      const RequestId id(i);
      if (!driver_.seen.contains(id)) continue;  // refused
      const Seen& seen = driver_.seen[id];
      ASSERT_TRUE(seen.finish) << "request " << i << " never ended";
      EXPECT_EQ(*seen.finish, naive_.reason(id)) << i;
      EXPECT_EQ(seen.tokens, naive_.answer(id)) << i;
      EXPECT_EQ(seen.cached_tokens, naive_.cached(id)) << i;
      EXPECT_LE(seen.cached_tokens, naive_.best_cached(id)) << i;
      if (plenty_) {
        EXPECT_EQ(seen.cached_tokens, naive_.best_cached(id)) << i;
      }
      cached += seen.cached_tokens;
    }
    for (const RequestId id : executor_.admitted()) prompts += driver_.seen[id].prompt_tokens;
    const CoreStats stats = driver_.core.stats();
    EXPECT_EQ(stats.prefix_hit_tokens, cached);
    EXPECT_EQ(stats.prefix_query_tokens, prompts);
    EXPECT_EQ(stats.finished + stats.aborted, driver_.seen.size());
    EXPECT_EQ(executor_.live(), 0U);
    if (plenty_) {
      EXPECT_EQ(driver_.core.findable_blocks().size(), naive_.prefixes());
    }
  }

  RandomStream random_;
  bool plenty_;
  CoreOptions options_;
  ScriptedExecutor executor_;
  SteppedCore driver_;
  NaiveModel naive_;
  std::vector<std::vector<TokenId>> prompts_;
  std::uint64_t last_id_ = 0;
};

TEST(CoreProperty, FollowsTheNaiveModelWithBlocksForEveryone) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed, true).run(250);
    if (HasFailure()) return;
  }
}

TEST(CoreProperty, FollowsTheNaiveModelWithScarceBlocks) {
  std::uint64_t evictions = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun run(seed, false);
    run.run(250);
    if (HasFailure()) return;
    evictions += run.stats().evictions;
  }
  EXPECT_GT(evictions, 500U);  // or the blocks were not scarce
}

TEST(CoreProperty, TheSameCallsGiveTheSameResults) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun first(seed, false);
    RandomRun second(seed, false);
    first.run(200);
    second.run(200);
    EXPECT_EQ(first.digest(), second.digest());
  }
}

}  // namespace
}  // namespace kvist::engine::core_property_test
