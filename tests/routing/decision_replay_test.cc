// Decisions are written as JSON, read and repeated.
#include "kvist/routing/decision_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/routing/decision_fields.h"
#include "kvist/routing/decision_json.h"
#include "kvist/routing/router.h"

namespace kvist::routing::decision_replay_test {
namespace {

using ::testing::HasSubstr;

std::string document(const DecisionLog& log, std::span<const std::string> names = {}) {
  JsonWriter json;
  json.begin_object().field("format", kDecisionsFormat).key("decisions").begin_array();
  for (std::size_t i = 0; i < log.size(); ++i) write_decision(json, log.newest(i), names);
  json.end_array().end_object();
  return json.take();
}

// A router with a random history.
class RandomLife {
 public:
  static constexpr std::uint32_t kWorkers = 6;

  RandomLife(std::uint64_t seed, spec::RoutingMode mode)
      : random_(seed),
        router_({.model = "m",
                 .workers = kWorkers,
                 .mode = mode,
                 .seed = seed,
                 .objective = {.ttft = seed % 2 == 0 ? 1.0 : 1.7}}),
        fleet_(kWorkers) {
    for (WorkerView& worker : fleet_) {
      worker = {.available = true,
                .events_exact = true,
                .limits = {.block_size = 32, .kv_blocks = 500, .max_batch_size = 8, .max_num_tokens = 2'048}};
    }
  }

  const Router& run(int requests) {
    for (int i = 1; i <= requests; ++i) {
      now_ += std::chrono::microseconds(draw(0, 20'000));
      fleet_[draw(0, kWorkers - 1)].available = draw(0, 9) > 0;
      start(static_cast<std::uint64_t>(i));
      if (!live_.empty() && draw(0, 2) > 0) advance(live_[draw(0, live_.size() - 1)]);
    }
    return router_;
  }

 private:
  std::uint64_t draw(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint64_t>(
        random_.uniform_int(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)));
  }

  void start(std::uint64_t id) {
    const std::uint64_t prefix = draw(1, 4);
    auto blocks = std::make_shared<std::vector<kv::BlockHash>>();
    for (std::uint64_t i = 0; i < draw(0, 60); ++i) blocks->emplace_back(mix_seed({prefix, i}));
    RouteQuery query{.request = RequestId(id),
                     .name = "request-" + std::to_string(id),
                     .prompt_tokens = static_cast<std::uint32_t>(blocks->size() * 32 + draw(1, 31)),
                     .blocks = blocks,
                     .session = draw(0, 2) == 0 ? 0 : mix_seed({draw(1, 10)}),
                     .excluded = {}};
    if (draw(0, 9) == 0) query.excluded.emplace_back(static_cast<std::uint32_t>(draw(0, kWorkers - 1)));
    if (const auto decision = router_.route(query, fleet_, now_)) live_.push_back(decision->request);
  }

  void advance(RequestHandle request) {
    router_.on_first_token(request, now_);
    router_.on_progress(request, draw(1, 50), now_);
    if (draw(0, 1) == 0) return;
    if (draw(0, 3) > 0) router_.on_usage(request, 100, 32);
    const bool completed = draw(0, 3) > 0;
    if (!completed) router_.on_failed(request, "server_error: \"status 500\"\n\xff");
    router_.on_finished(request, completed, now_);
    std::erase(live_, request);
  }

  RandomStream random_;
  Router router_;
  std::vector<WorkerView> fleet_;
  std::vector<RequestHandle> live_;
  TimePoint now_;
};

TEST(DecisionReplayTest, EveryDecisionOfEveryModeComesOutTheSameAfterJson) {
  for (const spec::RoutingMode mode : spec::kRoutingModes) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE("mode " + std::string(to_string(mode)) + ", seed " + std::to_string(seed));
      RandomLife life(seed, mode);
      const Router& router = life.run(300);
      const auto file = read_decisions(document(router.log()));
      ASSERT_TRUE(file) << file.error().message;
      ASSERT_EQ(file->decisions.size(), router.log().size());
      ASSERT_GT(file->decisions.size(), 250U);
      DecisionReplay replay;
      std::map<std::uint32_t, int> chosen;
      for (std::size_t i = 0; i < file->decisions.size(); ++i) {
        const DecisionRecord& record = file->decisions[i];
        const DecisionReplay::Result again = replay.decide(record);
        EXPECT_EQ(again.outcome, DecisionReplay::Outcome::kSame) << record.name;
        EXPECT_EQ(again.worker, router.log().newest(i).chosen);
        for (std::size_t c = 0; c < again.candidates.size(); ++c) {
          EXPECT_EQ(again.candidates[c].cost, record.candidates[c].cost);
        }
        Aftermath after = router.log().newest(i).after;
        if (!after.failure.empty())
          after.failure.replace(after.failure.size() - 1, 1, "\xef\xbf\xbd");  // JSON is UTF-8
        EXPECT_EQ(record.after, after);
        EXPECT_EQ(record.at, router.log().newest(i).at);
        ++chosen[again.worker.value()];
      }
      EXPECT_GT(chosen.size(), 1U);
    }
  }
}

// If the file lacked a field that a policy sees, a replay would silently be wrong. So if one of these checks fails, add
// the new field to decision_fields.h, or decision_json.cc, and to docs/formats/decisions.md.
TEST(DecisionReplayTest, TheFileHoldsAllFieldsOfWhatAPolicySees) {
  std::size_t bytes = 0;
  const auto add = [&](std::string_view, const auto& field) { bytes += sizeof(field); };
  const auto aligned = [&] { return (std::exchange(bytes, 0) + 7) / 8 * 8; };
  const Candidate candidate{.worker = WorkerId(0), .load = {}};
  visit_forecast(candidate.forecast, add);
  EXPECT_EQ(sizeof(Forecast), aligned());
  visit_load(candidate.load, add);
  EXPECT_EQ(sizeof(WorkerLoad), aligned());
  visit_limits(candidate.limits, add);
  EXPECT_EQ(sizeof(EngineLimits), aligned());
  visit_candidate(candidate, add);
  bytes += sizeof(WorkerId) + sizeof(std::uint32_t) + sizeof(EngineLimits);  // the second is for trust, aligned
  EXPECT_EQ(sizeof(Candidate), aligned() + sizeof(WorkerLoad) + sizeof(Forecast) + sizeof(double));
  EXPECT_EQ(sizeof(PolicyQuery), 72U);
}

TEST(DecisionReplayTest, AWayBackToTurnsIsRecordedAndComesOutTheSame) {
  // Half of all answers come a minute late, so all forecasts are wrong.
  Router router({.model = "m", .workers = 3, .mode = spec::RoutingMode::kKv});
  const std::vector<WorkerView> fleet(3, {.available = true, .limits = {}});
  RandomStream random(4);
  TimePoint now;
  for (std::uint64_t id = 1; id <= 400; ++id) {
    const auto decision =
        router.route({.request = RequestId(id), .prompt_tokens = 1'000, .blocks = nullptr, .excluded = {}}, fleet, now);
    ASSERT_TRUE(decision);
    now += std::chrono::milliseconds(random.uniform_int(0, 1) == 0 ? 1 : 60'000);
    router.on_first_token(decision->request, now);
    router.on_finished(decision->request, true, now);
  }
  DecisionReplay replay;
  std::size_t nets = 0;
  for (std::size_t i = 0; i < router.log().size(); ++i) {
    const DecisionRecord& record = router.log().newest(i);
    if (record.reason == DecisionReason::kSafetyNet) ++nets;
    EXPECT_EQ(replay.decide(record).outcome, DecisionReplay::Outcome::kSame) << record.number;
  }
  EXPECT_GT(nets, 0U);
}

TEST(DecisionReplayTest, OnlyModesThatUseTheSeedDependOnIt) {
  for (const spec::RoutingMode mode : spec::kRoutingModes) {
    SCOPED_TRACE(to_string(mode));
    RandomLife life(1, mode);
    const Router& router = life.run(300);
    std::size_t others = 0;
    for (std::size_t i = 0; i < router.log().size(); ++i) {
      DecisionRecord record = router.log().newest(i);
      record.seed = 77;
      if (DecisionReplay().decide(record).outcome != DecisionReplay::Outcome::kSame) ++others;
    }
    EXPECT_EQ(others > 0, uses_seed(mode));
  }
}

// Made anew for each record, or for each worker that is greater than those before it, the ring would take minutes.
TEST(DecisionReplayTest, AFileOfManySeedsAndWorkersMakesFewRings) {
  constexpr std::uint32_t kFrom = 4'000;
  DecisionReplay replay;
  DecisionRecord record;
  record.block_size = 32;
  record.mode = spec::RoutingMode::kBoundedHash;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    record.seed = i;
    record.chosen = WorkerId(kFrom + i / 100);
    record.candidates = {{.worker = record.chosen, .load = {}}};
    EXPECT_EQ(replay.decide(record).outcome, DecisionReplay::Outcome::kSame);
  }
}

TEST(DecisionReplayTest, APartialRecordIsNotDecidedAgain) {
  DecisionRecord record;
  record.block_size = 32;
  record.candidates = {{.worker = WorkerId(3), .load = {}}};
  record.chosen = WorkerId(3);
  record.left_out = 1;
  const DecisionReplay::Result result = DecisionReplay().decide(record);
  EXPECT_EQ(result.outcome, DecisionReplay::Outcome::kPartial);
  EXPECT_EQ(result.worker, WorkerId(3));
}

TEST(DecisionReplayTest, AChangedRecordComesOutOtherwise) {
  RandomLife life(3, spec::RoutingMode::kLeastLoaded);
  auto file = read_decisions(document(life.run(300).log()));
  ASSERT_TRUE(file);
  DecisionReplay replay;
  for (DecisionRecord& record : file->decisions) {
    if (record.candidates.size() == 1) continue;
    record.candidates[position_of(record.candidates, record.chosen)].load.requests += 1'000;
    EXPECT_EQ(replay.decide(record).outcome, DecisionReplay::Outcome::kOther);
  }
}

TEST(DecisionJson, KeepsInfinitiesAndNames) {
  DecisionLog log({});
  const PolicyQuery query{.request = RequestId(1), .prompt_tokens = 10, .block_size = 32};
  const std::vector<Candidate> candidates = {
      {.worker = WorkerId(0), .load = {}, .cost = std::numeric_limits<double>::infinity()},
      {.worker = WorkerId(2), .load = {}, .cost = 0.1}};
  log.on_decided({.query = query, .name = "a \"quoted\" name", .excluded = {}, .candidates = candidates, .chosen = 1});
  const std::vector<std::string> names = {"gpu-0", "gpu-1", "gpu-2"};
  const auto file = read_decisions(document(log, names));
  ASSERT_TRUE(file) << file.error().message;
  const DecisionRecord& record = file->decisions.at(0);
  EXPECT_EQ(record.name, "a \"quoted\" name");
  EXPECT_EQ(record.candidates[0].cost, std::numeric_limits<double>::infinity());
  EXPECT_EQ(record.candidates[1].cost, 0.1);
  ASSERT_EQ(file->worker_names.size(), 3U);
  EXPECT_EQ(file->worker_names[2], "gpu-2");
  EXPECT_EQ(file->worker_names[1], "");  // no candidate
}

std::string message(const std::string& json) {
  const auto file = read_decisions(json);
  return file ? "accepted" : file.error().message;
}

TEST(DecisionJson, HoldsWhatComputingAgainCosts) {
  DecisionLog log({});
  PolicyQuery query{.request = RequestId(1), .prompt_tokens = 100, .block_size = 32};
  const std::vector<Candidate> candidates = {{.worker = WorkerId(0), .load = {}}};
  query.mean_waiting = 2;
  log.on_decided({.query = query, .excluded = {}, .candidates = candidates, .chosen = 0});
  query.recomputed = 0.75;
  log.on_decided({.query = query, .excluded = {}, .candidates = candidates, .chosen = 0});
  const std::string text = document(log);
  const auto file = read_decisions(text);
  ASSERT_TRUE(file) << file.error().message;
  const auto with = std::ranges::find(file->decisions, 0.75, &DecisionRecord::recomputed);
  ASSERT_NE(with, file->decisions.end());
  EXPECT_EQ(with->query().recomputed, 0.75);
  EXPECT_EQ(with->query().mean_waiting, 2);
  const auto without = std::ranges::find(file->decisions, 0, &DecisionRecord::recomputed);
  ASSERT_NE(without, file->decisions.end());
  EXPECT_EQ(without->query().mean_waiting, 0) << "it is not recorded where it does not matter";
  std::string wrong = text;
  const std::string field = "\"recomputed\":0.75";
  wrong.replace(wrong.find(field), field.size(), "\"recomputed\":-1");
  EXPECT_THAT(message(wrong), HasSubstr("recomputed: expected a number from 0 on"));
}

TEST(DecisionJson, OfSomeCandidatesHoldsWhatTheFleetWasLike) {
  DecisionLog log({.candidates = 2});
  const PolicyQuery query{.request = RequestId(1), .prompt_tokens = 100, .block_size = 32};
  const std::vector<Candidate> candidates = {{.worker = WorkerId(0), .load = {}}};
  const FoundFleet fleet{.waiting = 0.1, .any_room = false, .cached_tokens = 64};
  log.on_decided({.query = query, .excluded = {}, .candidates = candidates, .left_out = 1, .fleet = fleet});
  std::string text = document(log);
  const auto file = read_decisions(text);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->decisions.at(0).fleet, fleet);
  const std::string field = "\"waiting\":0.1";
  text.replace(text.find(field), field.size(), "\"waiting\":-1");
  EXPECT_THAT(message(text), HasSubstr("fleet.waiting: expected a number from 0 on"));
}

TEST(DecisionJson, ReadsFilesFromBeforeAForecastHadAllItsFields) {
  DecisionLog log({});
  const PolicyQuery query{.request = RequestId(1), .prompt_tokens = 100, .block_size = 32};
  const Forecast forecast{
      .queue_ms = 5, .fleet_prefill_ms = 2, .displaced_ms = 3, .held_up_ms = 4, .known = 0.5, .lost_tokens = 1};
  const std::vector<Candidate> candidates = {{.worker = WorkerId(0), .load = {}, .forecast = forecast}};
  log.on_decided({.query = query, .excluded = {}, .candidates = candidates, .chosen = 0});
  std::string old = document(log);
  for (const std::string field : {R"("lost_tokens":1,)", R"("fleet_prefill_ms":2,)", R"("displaced_ms":3,)",
                                  R"("held_up_ms":4,)", R"("known":0.5,)"}) {
    const std::size_t place = old.find(field);
    ASSERT_NE(place, std::string::npos) << field;
    old.erase(place, field.size());
  }
  const auto file = read_decisions(old);
  ASSERT_TRUE(file) << file.error().message;
  const Forecast& read = file->decisions.at(0).candidates.at(0).forecast;
  EXPECT_EQ(read.queue_ms, 5);
  EXPECT_EQ(read.lost_tokens, 0U);
  EXPECT_EQ(read.fleet_prefill_ms, 0);
  EXPECT_EQ(read.displaced_ms, 0);
  EXPECT_EQ(read.held_up_ms, 0);
  EXPECT_EQ(read.known, 1);
}

TEST(DecisionJson, RefusesWhatCannotBeReplayedAndSaysWhere) {
  DecisionLog log({});
  const PolicyQuery query{.request = RequestId(1), .prompt_tokens = 100, .block_size = 32};
  const std::vector<Candidate> candidates = {{.worker = WorkerId(0), .load = {}}, {.worker = WorkerId(1), .load = {}}};
  log.on_decided({.query = query, .excluded = {}, .candidates = candidates, .chosen = 0});
  const std::string good = document(log);
  ASSERT_EQ(message(good), "accepted");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    const std::size_t place = changed.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return message(changed.replace(place, from.size(), to));
  };
  EXPECT_EQ(message(""), "not valid JSON: Empty: no JSON found");
  EXPECT_THAT(message("{"), HasSubstr("not valid JSON"));
  EXPECT_EQ(message("[]"), "expected an object, got an array");
  EXPECT_EQ(message("{}"), "format: required, but missing");
  EXPECT_EQ(with("kvist-decisions-1", "x"), "format: expected \"kvist-decisions-1\"");
  EXPECT_THAT(with("\"worker\":1", "\"worker\":0"),
              HasSubstr("decisions[0].candidates[1].worker: expected candidates"));
  EXPECT_THAT(with("\"worker\":1", "\"worker\":4000000000"), HasSubstr("expected an integer from 0 to 16383"));
  EXPECT_EQ(with("\"chosen\":0", "\"chosen\":7"), "decisions[0].chosen: expected the worker of a candidate");
  EXPECT_THAT(with("\"block_size\":32", "\"block_size\":0"), HasSubstr("block_size: expected at least one token"));
  EXPECT_THAT(with("\"cached_tokens\":0", "\"cached_tokens\":101"), HasSubstr("at most the prompt's 100 tokens"));
  EXPECT_THAT(with("\"mode\":\"round_robin\"", "\"mode\":\"fastest\""), HasSubstr("one of round_robin, random"));
  EXPECT_THAT(with("\"seed\":\"0000000000000000\"", "\"seed\":\"xyz\""), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("\"has_slot\":true", "\"has_slot\":1"), HasSubstr("candidates[0].forecast.has_slot: expected true"));
  EXPECT_THAT(with("\"ttft_ms\":0", "\"ttft_ms\":1e16"), HasSubstr("forecast.ttft_ms: expected a number from"));
  EXPECT_THAT(with("\"at_s\":0", "\"at_s\":-1"), HasSubstr("at_s: expected seconds"));
  EXPECT_THAT(with("\"kv_blocks\":0", "\"kv_blocks\":-1"), HasSubstr("limits.kv_blocks: expected an integer"));
  EXPECT_EQ(message(std::string(20, '[')).substr(0, 14), "not valid JSON");
}

TEST(DecisionJson, SurvivesEveryCutAndManyFlips) {
  RandomLife life(5, spec::RoutingMode::kKv);
  const std::string good = document(life.run(3).log());
  for (std::size_t size = 0; size < good.size(); size += 7) EXPECT_NE(message(good.substr(0, size)), "accepted");
  RandomStream random(17);
  DecisionReplay replay;
  for (int i = 0; i < 3'000; ++i) {
    std::string changed = good;
    const auto place = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(good.size()) - 1));
    changed[place] = "0129-\"{}[]:,.eax"[random.uniform_int(0, 15)];
    const auto file = read_decisions(changed);
    if (!file) continue;
    for (const DecisionRecord& record : file->decisions) EXPECT_FALSE(replay.decide(record).candidates.empty());
  }
}

}  // namespace
}  // namespace kvist::routing::decision_replay_test
