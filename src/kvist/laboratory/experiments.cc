#include "kvist/laboratory/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kvist/analysis/stored_run.h"
#include "kvist/base/output_file.h"
#include "kvist/base/yaml.h"
#include "kvist/laboratory/experiment_run.h"
#include "kvist/render/document.h"
#include "kvist/render/figures.h"
#include "kvist/report/check_text.h"
#include "kvist/report/model_facts.h"

namespace kvist::laboratory {
namespace {

namespace fs = std::filesystem;

Result<ExperimentRun> load_run(const ExperimentsOptions& options, Experiment experiment, const YamlNode& rules_file) {
  const fs::path results = fs::path(options.results) / experiment.name;
  KVIST_TRY(analysis::RunAnalysis run, analysis::load_analysis(results / "main"));
  std::map<std::string, analysis::RunAnalysis> others;
  for (const Counterfactual& counterfactual : experiment.counterfactuals) {
    KVIST_TRY(analysis::RunAnalysis other, analysis::load_analysis(results / counterfactual.name));
    others.emplace(counterfactual.name, std::move(other));
  }
  KVIST_TRY(analysis::Reference reference,
            analysis::load_reference((fs::path(options.references) / (experiment.name + ".json")).string()));
  KVIST_TRY(analysis::CheckRules rules, analysis::read_check_rules(rules_file, experiment.name));
  analysis::ReferenceCheck check = analysis::check_against(run, std::move(reference), std::move(rules));
  return ExperimentRun{.experiment = std::move(experiment),
                       .run = std::move(run),
                       .counterfactuals = std::move(others),
                       .check = std::move(check)};
}

/// The number of bars that have a verdict.
std::size_t bars_of(const analysis::ReferenceCheck& check) {
  return check.count(analysis::Verdict::kMet) + check.count(analysis::Verdict::kMissed) +
         check.count(analysis::Verdict::kIncomplete);
}

Result<std::string> findings_cell(const ExperimentRun& run) {
  KVIST_TRY(const std::vector<Finding> findings, evaluate_observations(run));
  const auto holding = std::ranges::count(findings, std::optional(true), &Finding::simulated);
  return fmt::format("{} of {}", holding, findings.size());
}

Result<render::Table> overview(const std::vector<ExperimentRun>& runs) {
  render::Table table;
  table.columns = {{"Experiment", render::Align::kLeft},
                   {"Bars met"},
                   {"Observations that hold"},
                   {"Missed bars", render::Align::kLeft}};
  for (const ExperimentRun& run : runs) {
    std::string missed;
    for (const analysis::FigureCheck& figure : run.check.figures) {
      if (figure.verdict != analysis::Verdict::kMissed) continue;
      missed += fmt::format("{}{} {} {} (bar {}%): {}", missed.empty() ? "" : "; ", spec::to_string(figure.mode),
                            figure.figure->title, render::format_pct(figure.mean_absolute),
                            render::format_plain(figure.bar->within_pct), report::verdict_text(figure));
    }
    KVIST_TRY(std::string observations, findings_cell(run));
    const std::size_t bars = bars_of(run.check);
    table.rows.push_back({run.experiment.title,
                          bars == 0 ? std::string("nothing was measured")
                                    : fmt::format("{} of {}", run.check.count(analysis::Verdict::kMet), bars),
                          std::move(observations), missed.empty() ? std::string(render::kMissing) : missed});
  }
  return table;
}

/// Every coefficient of the experiments' models, once per model.
void add_models(render::Document& document, const std::vector<ExperimentRun>& runs) {
  std::vector<std::string> shown;
  document.push_back(render::Heading{2, "Fitted and held out: every coefficient"});
  document.push_back(render::Paragraph{
      {{"What a coefficient's origin says: datasheet and derived ones saw none of the published figures; "
        "fitted ones name "
        "the experiment and the levels they saw, and every other level is held out; assumed and extrapolated "
        "ones stand "
        "on nothing measured."}}});
  for (const ExperimentRun& run : runs) {
    for (const report::ModelFacts& facts : report::model_facts(run.run.sweep())) {
      if (facts.profile.coefficients.empty() || std::ranges::find(shown, facts.profile.title) != shown.end()) continue;
      shown.push_back(facts.profile.title);
      render::Table table;
      table.columns = {{"Coefficient", render::Align::kLeft},
                       {"Value", render::Align::kRight},
                       {"Unit", render::Align::kLeft},
                       {"Origin", render::Align::kLeft}};
      for (const perfmodel::Coefficient& c : facts.profile.coefficients) {
        table.rows.push_back({c.name, fmt::format("{:.4g}", c.value), c.unit,
                              fmt::format("{}: {}", perfmodel::to_string(c.origin.kind), c.origin.text)});
      }
      document.push_back(render::Heading{3, facts.profile.title});
      document.push_back(std::move(table));
    }
  }
}

Result<std::string> head_of(const std::vector<ExperimentRun>& runs) {
  render::Document document;
  document.push_back(render::Heading{1, "The published experiments in the simulator"});
  document.push_back(render::Paragraph{
      {{"Written by "},
       render::code("make experiments"),
       {" from simulated runs; every figure and every verdict in it is computed, nothing is typed in. The scheduler, "
        "KV "
        "pool, router, workload and recorder of the live system run in virtual time; only the time of an engine step "
        "comes from a model of the GPU. Published curves are dashed, simulated ones solid with a band over the "
        "seeds."}}});
  document.push_back(render::Paragraph{
      {{"Deviation: simulated mean over the seeds against the published value, in percent of it; for figures in "
        "percent "
        "the difference in points. A bar holds for the mean absolute deviation over the levels of a table; levels that "
        "are left out stay in the table, with the reason. A missed bar says by how much."}}});
  KVIST_TRY(render::Table table, overview(runs));
  document.push_back(std::move(table));
  return render::markdown_of(document);
}

Result<void> write_all(const ExperimentsOptions& options, const std::vector<ExperimentRun>& runs) {
  std::error_code error;
  fs::create_directories(options.images, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", options.images, error.message()));
  KVIST_TRY(std::string text, head_of(runs));
  const fs::path folder = fs::absolute(options.document).parent_path();
  for (const ExperimentRun& run : runs) {
    const fs::path image = fs::path(options.images) / (run.experiment.name + ".svg");
    KVIST_TRY_VOID(write_file(image, experiment_plots(run)));
    KVIST_TRY(const std::string section,
              experiment_section(run, fs::absolute(image).lexically_relative(folder).generic_string()));
    text += "\n" + section;
  }
  render::Document models;
  add_models(models, runs);
  text += "\n" + render::markdown_of(models);
  KVIST_TRY_VOID(write_file(options.document, text));
  return {};
}

}  // namespace

Result<ExperimentsOutcome> write_experiments(const ExperimentsOptions& options) {
  KVIST_TRY(std::vector<Experiment> experiments, load_experiments(options.manifest));
  KVIST_TRY(const YamlNode rules, YamlNode::load((fs::path(options.manifest).parent_path() / "bars.yaml").string()));
  std::vector<ExperimentRun> runs;
  for (Experiment& experiment : experiments) {
    KVIST_TRY(ExperimentRun run, load_run(options, std::move(experiment), rules));
    runs.push_back(std::move(run));
  }
  KVIST_TRY_VOID(write_all(options, runs));
  ExperimentsOutcome outcome;
  KVIST_TRY(const render::Table table, overview(runs));
  outcome.table = render::render_text_table(table);
  for (const ExperimentRun& run : runs) {
    outcome.met += run.check.count(analysis::Verdict::kMet);
    outcome.missed += run.check.count(analysis::Verdict::kMissed);
    outcome.open += run.check.count(analysis::Verdict::kIncomplete);
  }
  return outcome;
}

}  // namespace kvist::laboratory
