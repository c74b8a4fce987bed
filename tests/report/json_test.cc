#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>

#include "analysis/sample_run.h"
#include "kvist/report/reference_json.h"
#include "kvist/report/report.h"

namespace kvist::report::json_test {
namespace {

using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> keys_of(const simdjson::dom::object& object) {
  std::vector<std::string> keys;
  for (const auto& field : object) keys.emplace_back(field.key);
  return keys;
}

const std::vector<std::string> kPublishedKeys = {"ttft_p50_ms",    "ttft_p95_ms",   "kv_hit_rate_pct", "error_pct",
                                                 "actual_rps",     "tops",          "tpot_p50_ms",     "tpot_p95_ms",
                                                 "latency_p50_ms", "latency_p95_ms"};

TEST(Json, TwoModesUseThePublishedFormat) {
  simdjson::dom::parser parser;
  const simdjson::dom::object root = parser.parse(render_json(sample_run(), sample_sweep())).get_object();
  EXPECT_THAT(keys_of(root), ElementsAre("generated", "metric", "target_rps", "levels", "kvist"));
  EXPECT_EQ(std::string_view(root["generated"]), "2026-03-01T10:20:30Z");
  EXPECT_EQ(std::string_view(root["metric"]), "loadgen_ttft_all_seconds");
  EXPECT_EQ(double(root["target_rps"]), 10.0);
  const simdjson::dom::object level = root["levels"].at(0).get_object();
  EXPECT_THAT(keys_of(level), ElementsAre("concurrency", "round_robin", "kv_aware"));
  EXPECT_EQ(std::uint64_t(level["concurrency"]), 40U);
  const simdjson::dom::object kv = level["kv_aware"].get_object();
  std::vector<std::string> keys = kPublishedKeys;
  keys.push_back("kvist");
  EXPECT_EQ(keys_of(kv), keys);
  EXPECT_DOUBLE_EQ(double(kv["ttft_p50_ms"]), 200);
  EXPECT_DOUBLE_EQ(double(kv["ttft_p95_ms"]), 650);
  EXPECT_DOUBLE_EQ(double(kv["kv_hit_rate_pct"]), 90);
  EXPECT_DOUBLE_EQ(double(kv["error_pct"]), 0);
  EXPECT_DOUBLE_EQ(double(kv["actual_rps"]), 4.11);  // turns per second, under the published name
  EXPECT_DOUBLE_EQ(double(kv["tops"]), 1550);
  EXPECT_DOUBLE_EQ(double(kv["tpot_p50_ms"]), 25.5);
  EXPECT_DOUBLE_EQ(double(kv["tpot_p95_ms"]), 27.5);
  EXPECT_DOUBLE_EQ(double(kv["latency_p50_ms"]), 21807.7);
  EXPECT_DOUBLE_EQ(double(kv["latency_p95_ms"]), 28451.8);
}

TEST(Json, OwnKeysStandApart) {
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(render_json(sample_run(), sample_sweep()));
  const simdjson::dom::element own = root["levels"].at(0)["round_robin"]["kvist"];
  EXPECT_DOUBLE_EQ(double(own["conversation_starts_per_s"]), 1.03);
  EXPECT_DOUBLE_EQ(double(own["workers_hit_rate_pct"]), 60);
  EXPECT_DOUBLE_EQ(double(own["hit_rate_difference_points"]), 0);
  EXPECT_EQ(std::uint64_t(own["prefilled_tokens"]), 4'000U);
  EXPECT_EQ(bool(own["excluded"]), false);
  EXPECT_EQ(std::uint64_t(own["turns"]["succeeded"]), 10U);
  EXPECT_EQ(std::uint64_t(own["snapshots"]["with_ttft"]), 2U);
  EXPECT_DOUBLE_EQ(double(own["exact"]["ttft_ms"]["p95"]), 285.5);
  EXPECT_EQ(std::uint64_t(own["exact"]["itl_ms"]["count"]), 30U);
  EXPECT_DOUBLE_EQ(double(own["predicted_cache"]["mean_absolute_error_tokens"]), 10);
  EXPECT_EQ(std::uint64_t(own["workers"].at(1)["turns"]), 5U);
  EXPECT_TRUE(own["workers"].at(1)["acceptance_rate"].is_null());
  EXPECT_EQ(std::string_view(own["client"]["verdict"]), "valid");
  EXPECT_TRUE(own["client"]["certificate"].is_null()) << "this run has none";
  const simdjson::dom::element run = root["kvist"];
  EXPECT_EQ(std::uint64_t(run["format"]), 2U);
  EXPECT_DOUBLE_EQ(double(run["time_scale"]), 1);
  EXPECT_DOUBLE_EQ(double(run["method"]["warmup_s"]), 5);
  EXPECT_EQ(std::string_view(run["machine"]["cores"]), "2");
}

TEST(Json, OpenArrivalsHaveNoTargetRate) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(render_json(sample_run(), sweep));
  EXPECT_TRUE(root["target_rps"].is_null());
}

TEST(Json, OneModeIsFlat) {
  results::RunRecord run = sample_run();
  run.levels = {run.levels[1]};
  simdjson::dom::parser parser;
  const simdjson::dom::object root = parser.parse(render_json(run, sample_sweep())).get_object();
  EXPECT_THAT(keys_of(root), ElementsAre("generated", "mode", "target_rps", "levels", "kvist"));
  EXPECT_EQ(std::string_view(root["mode"]), "kv");
  std::vector<std::string> keys = {"concurrency"};
  keys.insert(keys.end(), kPublishedKeys.begin(), kPublishedKeys.end());
  keys.push_back("kvist");
  EXPECT_EQ(keys_of(root["levels"].at(0).get_object()), keys);
}

TEST(Json, MissingFiguresAreNull) {
  results::RunRecord run = sample_run();
  run.levels.pop_back();
  run.levels[0].snapshots.clear();
  run.levels[0].turns.clear();
  run.levels[0].workers.clear();
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(render_json(run, sample_sweep()));
  EXPECT_TRUE(root["levels"].at(1)["kv_aware"].is_null());
  const simdjson::dom::element empty = root["levels"].at(0)["round_robin"];
  for (const std::string& key : kPublishedKeys) EXPECT_TRUE(empty[key].is_null()) << key;
  EXPECT_TRUE(empty["kvist"]["prefilled_tokens"].is_null());
  EXPECT_TRUE(empty["kvist"]["imbalance"].is_null());
  EXPECT_TRUE(empty["kvist"]["exact"]["ttft_ms"]["p50"].is_null());
  EXPECT_EQ(std::uint64_t(empty["kvist"]["exact"]["ttft_ms"]["count"]), 0U);
  EXPECT_TRUE(empty["kvist"]["predicted_cache"]["predicted_tokens"].is_null());
}

TEST(Json, TheMarkdownCarriesThePublishedKeysAlone) {
  const results::RunRecord run = sample_run();
  const spec::SweepSpec sweep = sample_sweep();
  const std::string published = reference_json(analysis::RunAnalysis(run, sweep), JsonDetail::kPublished);
  EXPECT_THAT(published, Not(HasSubstr("\"kvist\"")));
  EXPECT_THAT(render_markdown(run, sweep), HasSubstr("```json\n" + published + "```\n"));
}

/// The recorded reference files and our own reports name figures alike, so that they can be compared key by key.
TEST(Json, ReferenceFilesUseTheSameKeys) {
  simdjson::dom::parser parser;
  int modes = 0;
  const std::filesystem::path folder = std::filesystem::path(KVIST_SOURCE_DIR) / "data" / "reference";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "schema.json") continue;
    const simdjson::dom::element root = parser.load(entry.path().string());
    for (const simdjson::dom::object level : root["levels"].get_array()) {
      for (const auto& field : level) {
        if (field.key == "concurrency") continue;
        EXPECT_TRUE(field.key == "round_robin" || field.key == "kv_aware") << entry.path() << field.key;
        ++modes;
        for (const std::string& key : keys_of(field.value)) {
          if (key == "valid_runs") continue;
          EXPECT_THAT(kPublishedKeys, ::testing::Contains(key)) << entry.path();
        }
      }
    }
  }
  EXPECT_GT(modes, 0);
}

}  // namespace
}  // namespace kvist::report::json_test
