#include "kvist/laboratory/experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analysis/sample_run.h"
#include "kvist/laboratory/experiment_run.h"
#include "kvist/laboratory/experiment_spec.h"
#include "kvist/results/store.h"

namespace kvist::laboratory::experiments_test {
namespace {

namespace fs = std::filesystem;
using analysis::sample_level;
using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::HasSubstr;
using ::testing::Not;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void store_run(const fs::path& folder, results::RunRecord run) {
  fs::create_directories(folder);
  spec::SweepSpec sweep = sample_sweep();
  sweep.deployment.workers[1].name = "worker-1";
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.block_size = 32;  // a file has to have one
  run.spec_yaml = spec::to_yaml(sweep);
  auto store = results::Store::open((folder / "results.sqlite").string());
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const std::int64_t number = (*store)->begin_run(run).value();
  for (const results::LevelRecord& level : run.levels) ASSERT_TRUE((*store)->add_level(number, level).has_value());
  ASSERT_TRUE((*store)->finish_run(number, run.finished_utc).has_value());
}

/// One experiment: the sample run, published figures close to it, and a counterfactual that is twice as fast.
class Experiments : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    write(root_ / "examples/experiments.yaml",
          "experiments:\n  - name: sample\n    title: A sample\n"
          "    counterfactuals: [{name: faster, what: a faster GPU}]\n");
    write(root_ / "examples/bars.yaml", "bars: [{metric: ttft_p50_ms, within_pct: 10}]\n");
    observe("ttft_p50_ms(kv, 40) < ttft_p50_ms(round_robin, 40)");
    write(root_ / "examples/sample/notes.md", "Faster: {{ms(ttft_p50_ms(kv, 40, 'faster'))}}.\n");
    write(root_ / "data/sample.json",
          R"({"source": "doc.txt", "levels": [{"concurrency": 40, "round_robin": {"ttft_p50_ms": 260},
              "kv_aware": {"ttft_p50_ms": 270}}]})");
    store_run(root_ / "results/sample/main/sample-20260301-100000", sample_run());
    results::RunRecord faster = sample_run();
    faster.levels = {sample_level(spec::RoutingMode::kKv, 40, 100)};
    store_run(root_ / "results/sample/faster", faster);
  }

  void observe(const std::string& predicate) {
    write(root_ / "examples/sample/observations.yaml",
          "observations:\n  - id: ahead\n    claim: KV is ahead\n    holds_if: \"" + predicate +
              "\"\n    shows: \"KV {{ms(ttft_p50_ms(kv, 40))}}\"\n");
  }

  Result<ExperimentsOutcome> run(const std::string& document = "docs/experiments.md") {
    fs::create_directories(root_ / "docs");
    return write_experiments({.manifest = (root_ / "examples/experiments.yaml").string(),
                              .references = (root_ / "data").string(),
                              .results = (root_ / "results").string(),
                              .document = (root_ / document).string(),
                              .images = (root_ / "docs/images").string()});
  }

  fs::path root_;
};

TEST_F(Experiments, TheDocumentIsComputedFromTheResults) {
  const auto outcome = run();
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_EQ(outcome->met, 1U);
  EXPECT_EQ(outcome->missed, 1U);  // KV: 200 against 270
  const std::string document = read(root_ / "docs/experiments.md");
  EXPECT_THAT(document,
              HasSubstr("| A sample | 1 of 2 | 1 of 1 | kv TTFT p50 25.9% (bar 10%): missed by 15.9 points |"));
  EXPECT_THAT(document, HasSubstr("| KV is ahead | observed | does not hold | holds |"));
  EXPECT_THAT(document, HasSubstr("holds in the simulation: KV 200ms. Published: KV 270ms."));
  EXPECT_THAT(document, HasSubstr("Faster: 100ms."));
  EXPECT_THAT(document, HasSubstr("#### What if: a faster GPU"));
  EXPECT_THAT(document, HasSubstr("| 40 | KV | 200ms | 100ms |"));
  EXPECT_THAT(document, HasSubstr("(images/sample.svg)"));
  EXPECT_THAT(document, Not(HasSubstr("2026-03-01")));  // no date of creation
  const std::string svg = read(root_ / "docs/images/sample.svg");
  EXPECT_THAT(svg, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, HasSubstr("KV cache-aware, published"));
}

TEST_F(Experiments, TheSameResultsGiveTheSameBytes) {
  ASSERT_TRUE(run().has_value());
  ASSERT_TRUE(run("docs/again.md").has_value());
  EXPECT_EQ(read(root_ / "docs/experiments.md"), read(root_ / "docs/again.md"));
}

TEST_F(Experiments, MistakesNameTheirPlace) {
  observe("speed(kv, 40) > 1");
  EXPECT_THAT(run().error().message, HasSubstr("sample: observation ahead"));
  observe("tops(kv, 40, 'slower') > 1");
  EXPECT_THAT(run().error().message, HasSubstr("no counterfactual \"slower\""));
  observe("1 > 0");
  write(root_ / "examples/sample/notes.md", "{{tops(fast, 40)}}");
  EXPECT_THAT(run().error().message, HasSubstr("sample/notes.md"));
  fs::remove_all(root_ / "results/sample/faster");
  EXPECT_THAT(run().error().message, HasSubstr("no such file or folder"));
}

/// Every shipped experiment has its files, and they are readable.
TEST(ShippedExperiments, ReadWithoutErrors) {
  const fs::path folder = fs::path(KVIST_SOURCE_DIR) / "examples" / "experiments";
  const auto experiments = load_experiments((folder / "experiments.yaml").string());
  ASSERT_TRUE(experiments.has_value()) << experiments.error().message;
  EXPECT_EQ(experiments->size(), 5U);
  for (const Experiment& experiment : *experiments) {
    EXPECT_FALSE(experiment.observations.empty()) << experiment.name;
    EXPECT_FALSE(experiment.notes.empty()) << experiment.name;
    EXPECT_TRUE(fs::exists(fs::path(KVIST_SOURCE_DIR) / "data/reference" / (experiment.name + ".json")));
    std::vector<fs::path> sweeps = {folder / experiment.name / "sweep.yaml"};
    for (const Counterfactual& c : experiment.counterfactuals) {
      sweeps.push_back(folder / experiment.name / "counterfactuals" / (c.name + ".yaml"));
    }
    for (const fs::path& sweep : sweeps) {
      const auto node = YamlNode::load(sweep.string());
      ASSERT_TRUE(node.has_value()) << node.error().message;
      const auto spec = spec::read_sweep(*node, sweep.parent_path().string());
      ASSERT_TRUE(spec.has_value()) << spec.error().message;
      EXPECT_FALSE(spec->simulation.keep_token_gaps) << sweep;
    }
  }
}

/// Every predicate and every text of the shipped experiments can be computed, although the sample has other levels.
TEST(ShippedExperiments, UseOnlyExistingFigures) {
  const fs::path folder = fs::path(KVIST_SOURCE_DIR) / "examples" / "experiments";
  const auto experiments = load_experiments((folder / "experiments.yaml").string());
  ASSERT_TRUE(experiments.has_value()) << experiments.error().message;
  const analysis::RunAnalysis run(sample_run(), sample_sweep());
  for (const Experiment& experiment : *experiments) {
    std::map<std::string, analysis::RunAnalysis> others;
    for (const Counterfactual& c : experiment.counterfactuals) others.emplace(c.name, run);
    const ExperimentRun sample{
        .experiment = experiment, .run = run, .counterfactuals = others, .check = analysis::check_against(run, {}, {})};
    const auto findings = evaluate_observations(sample);
    EXPECT_TRUE(findings.has_value()) << findings.error().message;
    const auto section = experiment_section(sample, "image.svg");
    EXPECT_TRUE(section.has_value()) << section.error().message;
  }
}

}  // namespace
}  // namespace kvist::laboratory::experiments_test
