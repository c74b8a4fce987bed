#include <fmt/format.h>

#include <algorithm>

#include "kvist/analysis/mode_names.h"
#include "kvist/laboratory/experiment_run.h"
#include "kvist/render/document.h"
#include "kvist/render/figures.h"
#include "kvist/report/check_text.h"
#include "kvist/report/model_facts.h"

namespace kvist::laboratory {
namespace {

/// "max_batch_size" as "max batch size".
std::string words_of(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

render::Table deployment_table(const ExperimentRun& run) {
  render::Table table;
  table.columns = {{"Published deployment", render::Align::kLeft}, {"Value", render::Align::kLeft}};
  for (const auto& [key, value] : run.check.reference.deployment) table.rows.push_back({words_of(key), value});
  return table;
}

std::string memory_text(const spec::WorkerSpec& worker) {
  return fmt::format("{} batch slots, {} KV blocks of {} tokens ({} tokens) per worker", worker.max_batch_size,
                     render::format_count(worker.kv_blocks), worker.block_size,
                     render::format_count(std::uint64_t{worker.kv_blocks} * worker.block_size));
}

void add_simulated_as(render::Document& document, const ExperimentRun& run) {
  const spec::SweepSpec& sweep = run.run.sweep();
  render::Bullets bullets;
  for (const report::ModelFacts& facts : report::model_facts(sweep)) {
    std::string text = " " + facts.profile.title;
    const std::string origins = report::origin_counts(facts.profile);
    if (!origins.empty()) text += fmt::format(" (facts and coefficients by origin: {})", origins);
    bullets.items.push_back({render::strong("Model:"), {std::move(text)}});
    for (const std::string& reason : facts.profile.extrapolation.reasons) {
      bullets.items.push_back({render::strong("Extrapolated:"), {" " + reason}});
    }
  }
  if (!sweep.deployment.workers.empty()) {
    bullets.items.push_back(
        {render::strong("Workers:"),
         {fmt::format(" {}; {}", sweep.deployment.workers.size(), memory_text(sweep.deployment.workers.front()))}});
  }
  std::string modes;
  for (const spec::Arm& mode : run.run.modes()) {
    modes += fmt::format("{}{}", modes.empty() ? "" : ", ", spec::to_string(mode));
  }
  bullets.items.push_back({render::strong("Routing modes:"), {" " + modes}});
  bullets.items.push_back(
      {render::strong("Repetitions:"),
       {fmt::format(" {} seeds per level; tables show mean ± standard deviation", sweep.method.repetitions)}});
  bullets.items.push_back({render::strong("Files:"),
                           {" "},
                           render::code(fmt::format("examples/experiments/{}/sweep.yaml", run.experiment.name)),
                           {" (the same file drives a live sweep)"}});
  document.push_back(std::move(bullets));
}

std::string verdict_word(std::optional<bool> holds) {
  return !holds ? std::string(render::kMissing) : *holds ? "holds" : "does not hold";
}

/// One bullet per observation: claim, both verdicts with their figures, reason.
void add_findings(render::Document& document, const std::vector<Finding>& findings) {
  render::Table table;
  table.columns = {
      {"Observation", render::Align::kLeft}, {"Kind", render::Align::kLeft}, {"Published figures"}, {"Simulated"}};
  render::Bullets details;
  for (const Finding& finding : findings) {
    const Observation& o = *finding.observation;
    table.rows.push_back(
        {o.claim, std::string(to_string(o.kind)), verdict_word(finding.published), verdict_word(finding.simulated)});
    render::Text item = {
        render::strong(o.claim + ":"),
        {fmt::format(" {} in the simulation: {}.", verdict_word(finding.simulated), finding.simulated_shows)}};
    if (!finding.published_shows.empty()) item.push_back({fmt::format(" Published: {}.", finding.published_shows)});
    if (!finding.mechanism.empty()) item.push_back({" " + finding.mechanism});
    item.push_back({" Predicate: "});
    item.push_back(render::code(o.holds_if));
    details.items.push_back(std::move(item));
  }
  document.push_back(render::Heading{3, "What the document says, and what comes out"});
  document.push_back(std::move(table));
  document.push_back(std::move(details));
}

/// The figures of a changed run next to those of the run as published.
void add_counterfactual(render::Document& document, const ExperimentRun& run, const Counterfactual& counterfactual) {
  const auto other = run.counterfactuals.find(counterfactual.name);
  if (other == run.counterfactuals.end()) return;
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  const std::string_view keys[] = {"ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "tops", "error_pct"};
  for (const std::string_view key : keys) {
    table.columns.push_back({fmt::format("{}", analysis::find_figure(key)->title)});
    table.columns.push_back({"changed"});
  }
  for (const analysis::MeasuredLevel& level : other->second.levels()) {
    const analysis::MeasuredLevel* before = run.run.find(level.analysis.mode, level.analysis.concurrency);
    std::vector<std::string> row = {fmt::format("{}", level.analysis.concurrency),
                                    analysis::short_name(level.analysis.mode)};
    for (const std::string_view key : keys) {
      const analysis::NamedFigure& named = *analysis::find_figure(key);
      row.push_back(named.format(before == nullptr ? std::nullopt : named.figure(before->analysis)));
      row.push_back(named.format(named.figure(level.analysis)));
    }
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{4, "What if: " + counterfactual.what});
  document.push_back(std::move(table));
}

void add_expected(render::Document& document, const ExperimentRun& run) {
  if (run.check.reference.expected.empty()) return;
  render::Bullets bullets;
  for (const auto& [key, value] : run.check.reference.expected) {
    bullets.items.push_back({{fmt::format("expected {}: {}", words_of(key), render::format_plain(value))}});
  }
  document.push_back(std::move(bullets));
}

/// The hit rate counted in both ways next to the published one, because the document does not say which was used.
void add_hit_rates(render::Document& document, const ExperimentRun& run) {
  const analysis::NamedFigure& named = *analysis::find_figure("kv_hit_rate_pct");
  render::Table table;
  table.columns = {
      {"Concurrency"}, {"Mode", render::Align::kLeft}, {"Published"}, {"Cached / prompt tokens"}, {"Mean of turns"}};
  for (const analysis::ReferenceFigures& published : run.check.reference.levels) {
    const std::optional<double> value = published.figure(named);
    const analysis::MeasuredLevel* level =
        run.run.find(analysis::stand_in(run.run, published.mode), published.concurrency);
    if (!value || level == nullptr) continue;
    const analysis::HitRate& rate = level->analysis.hit_rate;
    table.rows.push_back({fmt::format("{}", published.concurrency), analysis::short_name(published.mode),
                          render::format_pct(value), render::format_pct(rate.client_pct),
                          render::format_pct(rate.turn_mean_pct)});
  }
  if (table.rows.empty()) return;
  document.push_back(render::Heading{3, "Hit rates"});
  document.push_back(render::Paragraph{
      {{"The documents do not say how their hit rate is counted. Two readings: cached over prompt tokens of "
        "all turns, and "
        "the mean over turns of each one's share."}}});
  document.push_back(std::move(table));
}

/// The simulated figures alone, for an experiment without published ones.
void add_simulated_tables(render::Document& document, const ExperimentRun& run) {
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  for (const analysis::NamedFigure& named : analysis::published_figures())
    table.columns.push_back({std::string(named.title)});
  for (const analysis::MeasuredLevel& level : run.run.levels()) {
    std::vector<std::string> row = {fmt::format("{}", level.analysis.concurrency),
                                    analysis::short_name(level.analysis.mode)};
    for (const analysis::NamedFigure& named : analysis::published_figures()) {
      const std::optional<analysis::Spread> spread = level.spread(named.figure);
      row.push_back(spread ? named.format(spread->mean) + " ± " + named.format(spread->standard_deviation)
                           : std::string(render::kMissing));
    }
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{3, "Simulated figures"});
  document.push_back(std::move(table));
}

}  // namespace

Result<std::string> experiment_section(const ExperimentRun& run, const std::string& image) {
  const ExperimentFigures figures = run.figures();
  render::Document head;
  head.push_back(render::Heading{2, run.experiment.title});
  head.push_back(
      render::Paragraph{{{"Published figures: "},
                         render::code(fmt::format("data/reference/{}.json", run.experiment.name)),
                         {fmt::format(", from {}.{}", run.check.reference.source,
                                      run.check.reference.note.empty() ? "" : " " + run.check.reference.note)}}});
  head.push_back(deployment_table(run));
  add_expected(head, run);
  head.push_back(render::Paragraph{{render::strong("Simulated as:")}});
  add_simulated_as(head, run);
  std::string section = render::markdown_of(head);
  section += fmt::format("\n![{}: published and simulated curves]({})\n\n", run.experiment.title, image);

  render::Document body;
  if (!run.check.figures.empty()) {
    body.push_back(render::Heading{3, "Verdicts"});
    body.push_back(report::verdict_table(run.check));
  }
  KVIST_TRY(const std::vector<Finding> findings, evaluate_observations(run));
  if (!findings.empty()) add_findings(body, findings);
  for (const Counterfactual& counterfactual : run.experiment.counterfactuals) {
    add_counterfactual(body, run, counterfactual);
  }
  section += render::markdown_of(body);
  Result<std::string> notes = fill_in(run.experiment.notes, figures.of(ExperimentFigures::Side::kSimulated));
  if (!notes) return std::unexpected(std::move(notes).error().in(run.experiment.name + "/notes.md"));
  if (!notes->empty()) section += "\n### Notes\n\n" + *notes;
  render::Document tables;
  add_hit_rates(tables, run);
  if (run.check.figures.empty()) {
    add_simulated_tables(tables, run);
  } else {
    tables.push_back(render::Heading{3, "Tables side by side"});
    report::add_figure_tables(tables, run.check, 4);
  }
  return section + "\n" + render::markdown_of(tables);
}

}  // namespace kvist::laboratory
