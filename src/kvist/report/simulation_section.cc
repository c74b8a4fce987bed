#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/render/figures.h"
#include "kvist/report/model_facts.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// A coefficient's value as people write it: 4 significant digits.
std::string coefficient_text(double value) {
  return fmt::format("{:.4g}", value);
}

render::Text model_item(const ModelFacts& facts, std::size_t models) {
  std::string text = " " + facts.profile.title;
  if (models > 1) text += fmt::format(" ({})", fmt::join(facts.workers, ", "));
  const std::string origins = origin_counts(facts.profile);
  if (!origins.empty()) text += fmt::format(". Facts and coefficients by origin: {}", origins);
  return {render::strong("Model:"), {std::move(text)}};
}

void add_coefficients(render::Document& document, const perfmodel::ProfileDescription& profile) {
  if (profile.coefficients.empty()) return;
  render::Table table;
  table.columns = {{"Coefficient", render::Align::kLeft},
                   {"Value", render::Align::kRight},
                   {"Unit", render::Align::kLeft},
                   {"Meaning", render::Align::kLeft},
                   {"Origin", render::Align::kLeft}};
  for (const perfmodel::Coefficient& c : profile.coefficients) {
    table.rows.push_back({c.name, coefficient_text(c.value), c.unit, c.meaning,
                          fmt::format("{}: {}", perfmodel::to_string(c.origin.kind), c.origin.text)});
  }
  document.push_back(std::move(table));
}

}  // namespace

void add_simulation_notice(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (!analysis.run().simulated) return;
  document.push_back(render::Paragraph{
      {render::strong("This run is simulated."),
       {" No GPU, network or clock was involved: the scheduler, KV pool, router, workload and recorder of the live "
        "system ran in virtual time, and engine steps took what a model of the GPU says. All times are virtual; the "
        "machine named below only computed them."}}});
  const std::vector<ModelFacts> models = model_facts(analysis.sweep());
  render::Bullets bullets;
  for (const ModelFacts& facts : models) {
    bullets.items.push_back(model_item(facts, models.size()));
    for (const std::string& reason : facts.profile.extrapolation.reasons) {
      bullets.items.push_back({render::strong("Extrapolated:"), {" " + reason}});
    }
  }
  if (!bullets.items.empty()) document.push_back(std::move(bullets));
}

void add_model(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (!analysis.run().simulated) return;
  document.push_back(render::Heading{2, "Model of time and memory"});
  for (const ModelFacts& facts : model_facts(analysis.sweep())) {
    document.push_back(render::Paragraph{
        {render::strong(facts.profile.title), {fmt::format(" ({})", fmt::join(facts.workers, ", "))}}});
    render::Table costs;
    costs.columns = {{"Derived", render::Align::kLeft},
                     {"Value", render::Align::kRight},
                     {"Unit", render::Align::kLeft},
                     {"Formula", render::Align::kLeft}};
    for (const perfmodel::DerivedCost& cost : facts.profile.costs) {
      costs.rows.push_back({cost.name, coefficient_text(cost.value), cost.unit, cost.formula});
    }
    if (!costs.rows.empty()) document.push_back(std::move(costs));
    add_coefficients(document, facts.profile);
  }
}

}  // namespace kvist::report
