#include "kvist/analysis/reference_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>

#include "analysis/sample_run.h"
#include "kvist/report/check_text.h"
#include "kvist/report/report.h"

namespace kvist::analysis::reference_check_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr spec::RoutingMode kRr = spec::RoutingMode::kRoundRobin;
constexpr spec::RoutingMode kKv = spec::RoutingMode::kKv;

// The sample run has TTFT p50 250 and 300 (RR), 200 and 310 (KV) at 40 and 50 users.
constexpr const char* kReference = R"json({
  "source": "doc.txt", "deployment": {"gpu": "H200", "workers": 3, "speculative": {"method": "eagle3"}},
  "levels": [
    {"concurrency": 40, "round_robin": {"ttft_p50_ms": 200, "error_pct": 0.0, "valid_runs": "2/3"},
                        "kv_aware": {"ttft_p50_ms": 210, "ttft_p95_ms": 655}},
    {"concurrency": 50, "round_robin": {"ttft_p50_ms": 330}, "kv_aware": {"ttft_p50_ms": 310, "ttft_p95_ms": 700}}
  ]})json";

Reference reference() {
  Result<Reference> parsed = parse_reference(kReference, "sample");
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return *parsed;
}

Result<CheckRules> rules(const std::string& yaml) {
  return read_check_rules(YamlNode::parse(yaml, "bars.yaml").value(), "sample");
}

const FigureCheck& find(const ReferenceCheck& check, spec::RoutingMode mode, std::string_view key) {
  for (const FigureCheck& figure : check.figures) {
    if (figure.mode == mode && figure.figure->key == key) return figure;
  }
  ADD_FAILURE() << "no " << key;
  return check.figures.front();
}

TEST(ReferenceData, ReadsPublishedFiguresAndSkipsUnknownMembers) {
  const Reference r = reference();
  EXPECT_EQ(r.source, "doc.txt");
  EXPECT_THAT(r.concurrencies, ElementsAre(40, 50));
  EXPECT_THAT(r.modes(), ElementsAre(kRr, kKv));
  EXPECT_EQ(r.find(kRr, 40)->valid_runs, "2/3");
  EXPECT_DOUBLE_EQ(r.find(kKv, 40)->figure(*find_figure("ttft_p95_ms")).value(), 655);
  EXPECT_FALSE(r.find(kRr, 50)->figure(*find_figure("tops")).has_value());
  EXPECT_EQ(r.find(kKv, 60), nullptr);
  EXPECT_THAT(r.deployment, ElementsAre(std::pair<std::string, std::string>("gpu", "H200"),
                                        std::pair<std::string, std::string>("workers", "3"),
                                        std::pair<std::string, std::string>("speculative.method", "eagle3")));
}

TEST(ReferenceData, ReadsEveryFileTheProjectCarriesAndItsOwnReports) {
  const std::filesystem::path folder = std::filesystem::path(KVIST_SOURCE_DIR) / "data" / "reference";
  std::size_t levels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "schema.json") continue;
    const Result<Reference> r = load_reference(entry.path().string());
    ASSERT_TRUE(r.has_value()) << r.error().message;
    levels += r->levels.size();
  }
  EXPECT_EQ(levels, 18U + 3U + 8U + 12U);
  const Result<Reference> own = parse_reference(report::render_json(sample_run(), sample_sweep()), "own");
  ASSERT_TRUE(own.has_value()) << own.error().message;
  EXPECT_DOUBLE_EQ(own->find(kKv, 50)->figure(*find_figure("ttft_p50_ms")).value(), 310);
  const Result<Reference> flat =
      parse_reference(R"({"mode": "kv", "levels": [{"concurrency": 160, "tops": 3448.8}]})", "flat");
  ASSERT_TRUE(flat.has_value());
  EXPECT_DOUBLE_EQ(flat->find(kKv, 160)->figure(*find_figure("tops")).value(), 3448.8);
}

TEST(ReferenceData, ErrorsNameTheProblem) {
  const auto message = [](const char* json) { return parse_reference(json, "x").error().message; };
  EXPECT_THAT(message(R"({"levels": [{"concurrency": 4, "kv_aware": {}, "kv": {"tops": 1}}]})"),
              HasSubstr("levels[0].kv: the mode is given twice"));
  EXPECT_THAT(message("[1]"), HasSubstr("x: expected an object, got an array"));
  EXPECT_THAT(message("{}"), HasSubstr("levels: required, but missing"));
  EXPECT_THAT(message(R"({"levels": [{"kv_aware": {}}]})"), HasSubstr("levels[0].concurrency: required, but missing"));
  EXPECT_THAT(message(R"({"levels": [{"concurrency": 4, "kv_aware": {"tops": "many"}}]})"),
              HasSubstr("levels[0].kv_aware.tops: expected a number"));
  EXPECT_THAT(message(R"({"mode": "best", "levels": []})"), HasSubstr("unknown mode \"best\""));
  EXPECT_THAT(load_reference("/does/not/exist.json").error().message, HasSubstr("/does/not/exist.json"));
}

TEST(ReferenceCheck, AveragesAbsoluteDeviationsAndJudges) {
  const RunAnalysis analysis(sample_run(), sample_sweep());
  const ReferenceCheck check =
      check_against(analysis, reference(), rules("bars: [{metric: ttft_p50_ms, within_pct: 10}]").value());
  const FigureCheck& rr = find(check, kRr, "ttft_p50_ms");  // +25 % and -9.09 %
  EXPECT_NEAR(rr.mean_absolute.value(), 17.045, 1e-3);
  EXPECT_NEAR(rr.mean_signed.value(), 7.955, 1e-3);
  EXPECT_EQ(rr.verdict, Verdict::kMissed);
  const FigureCheck& kv = find(check, kKv, "ttft_p50_ms");  // -4.76 % and 0
  EXPECT_NEAR(kv.mean_absolute.value(), 2.381, 1e-3);
  EXPECT_EQ(kv.verdict, Verdict::kMet);
  EXPECT_EQ(find(check, kKv, "ttft_p95_ms").verdict, Verdict::kNoBar);
  EXPECT_DOUBLE_EQ(find(check, kRr, "error_pct").levels[0].deviation.value(), 0);  // in points
  EXPECT_EQ(check.count(Verdict::kMissed), 1U);
  EXPECT_THAT(report::reference_check_terminal(check), HasSubstr("missed by 7.0 points"));
}

TEST(ReferenceCheck, LeavesOutWhatTheRulesName) {
  const RunAnalysis analysis(sample_run(), sample_sweep());
  const ReferenceCheck check = check_against(analysis, reference(),
                                             rules(R"(
bars: [{metric: ttft_p50_ms, within_pct: 50}]
references:
  other: {exclude: [{concurrency: 50, reason: not for us}]}
  sample:
    bars: [{metric: ttft_p50_ms, within_pct: 10}]
    exclude: [{mode: round_robin, concurrency: 40, metrics: [ttft_p50_ms], reason: cold start}]
)")
                                                 .value());
  const FigureCheck& rr = find(check, kRr, "ttft_p50_ms");
  EXPECT_EQ(rr.counted, 1U);
  EXPECT_NEAR(rr.mean_absolute.value(), 9.091, 1e-3);
  EXPECT_EQ(rr.verdict, Verdict::kMet);
  EXPECT_EQ(rr.levels[0].use, LevelUse::kLeftOut);
  EXPECT_EQ(find(check, kKv, "ttft_p50_ms").counted, 2U);
  const std::string markdown = report::reference_check_markdown(analysis, check);
  EXPECT_THAT(markdown, HasSubstr("| 40 | 200ms | 250ms | +25.0% (1) | 210ms | 200ms | -4.8% |"));
  EXPECT_THAT(markdown, HasSubstr("- (1) not held against the bar: cold start"));
}

TEST(ReferenceCheck, BeyondTheSlotsThePublishedValueMustLieWithinTheSeedsRange) {
  results::RunRecord run = sample_run();
  const std::size_t measured = run.levels.size();
  for (std::size_t i = 0; i < measured; ++i) {  // a second repetition, its p95 100 ms higher: 650 and 750
    results::LevelRecord again = run.levels[i];
    again.repetition = 1;
    for (workload::Snapshot& snapshot : again.snapshots) *snapshot.ttft_p95_ms += 100;
    run.levels.push_back(std::move(again));
  }
  spec::SweepSpec sweep = sample_sweep();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.max_batch_size = 10;  // 20 slots: all levels beyond
  const CheckRules bars =
      rules("bars: [{metric: ttft_p95_ms, within_pct: 1, beyond_slots: within_seeds_range}]").value();
  const ReferenceCheck inside = check_against(RunAnalysis(run, sweep), reference(), bars);
  EXPECT_EQ(find(inside, kKv, "ttft_p95_ms").range_hits, 2U);
  EXPECT_EQ(find(inside, kKv, "ttft_p95_ms").verdict, Verdict::kMet);
  Reference far = reference();
  far.levels[1].figures[1] = 900;
  const ReferenceCheck outside = check_against(RunAnalysis(run, sweep), far, bars);
  EXPECT_EQ(find(outside, kKv, "ttft_p95_ms").verdict, Verdict::kMissed);
  EXPECT_THAT(report::reference_check_terminal(outside), HasSubstr("missed: 1 level outside the seeds' range"));
  // One repetition has no range.
  const ReferenceCheck single = check_against(RunAnalysis(sample_run(), sweep), reference(), bars);
  EXPECT_EQ(find(single, kKv, "ttft_p95_ms").verdict, Verdict::kIncomplete);
}

TEST(ReferenceCheck, ALevelThatWasNotMeasuredLeavesTheVerdictOpen) {
  results::RunRecord run = sample_run();
  run.levels.pop_back();  // KV at 50
  const RunAnalysis analysis(run, sample_sweep());
  const ReferenceCheck check =
      check_against(analysis, reference(), rules("bars: [{metric: ttft_p50_ms, within_pct: 10}]").value());
  EXPECT_EQ(find(check, kKv, "ttft_p50_ms").verdict, Verdict::kIncomplete);
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(report::reference_check_json(analysis, check));
  EXPECT_EQ(std::string_view(json["reference"]), "sample");
  EXPECT_TRUE(json["figures"].at(1)["levels"].at(1)["mean"].is_null());
  EXPECT_EQ(std::string_view(json["figures"].at(1)["verdict"]), "incomplete");
}

TEST(CheckRules, ErrorsNameTheProblem) {
  EXPECT_THAT(rules("bars: [{metric: speed, within_pct: 1}]").error().message,
              HasSubstr("no figure \"speed\"; there are: ttft_p50_ms"));
  EXPECT_THAT(rules("bars: [{metric: tops, within_pct: 1, beyond_slots: no}]").error().message,
              HasSubstr("within_seeds_range"));
  EXPECT_THAT(rules("references: {other: {exclude: [{concurrency: 4}]}}").error().message, HasSubstr("reason"));
  EXPECT_THAT(rules("bar: []").error().message, HasSubstr("bars.yaml:1"));
}

TEST(CheckRules, TheShippedBarsAreThoseOfTheIssue) {
  const std::string path = std::string(KVIST_SOURCE_DIR) + "/examples/experiments/bars.yaml";
  const Result<YamlNode> yaml = YamlNode::load(path);
  ASSERT_TRUE(yaml.has_value()) << yaml.error().message;
  const Result<CheckRules> shipped = read_check_rules(*yaml, "trtllm-3xh200-rr-vs-kv-40-120");
  ASSERT_TRUE(shipped.has_value()) << shipped.error().message;
  const std::pair<const char*, double> bars[] = {{"tpot_p50_ms", 5},    {"tpot_p95_ms", 5}, {"latency_p50_ms", 7},
                                                 {"latency_p95_ms", 7}, {"tops", 5},        {"actual_rps", 7},
                                                 {"ttft_p50_ms", 10},   {"ttft_p95_ms", 20}};
  EXPECT_THAT(shipped->bars, SizeIs(std::size(bars)));
  for (const auto& [key, pct] : bars) EXPECT_DOUBLE_EQ(shipped->bar(*find_figure(key))->within_pct, pct) << key;
  EXPECT_TRUE(shipped->bar(*find_figure("ttft_p95_ms"))->range_beyond_slots);
}

}  // namespace
}  // namespace kvist::analysis::reference_check_test
