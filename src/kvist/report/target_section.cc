#include <fmt/format.h>

#include "kvist/render/figures.h"
#include "kvist/report/sections.h"

namespace kvist::report {

void add_target(render::Document& document, const analysis::RunAnalysis& analysis) {
  const spec::TargetSpec& target = analysis.sweep().target;
  const std::string unknown(render::kMissing);
  render::Table table;
  table.columns = {{"Parameter", render::Align::kLeft}, {"Value", render::Align::kLeft}};
  table.rows = {{"Target", target.url},
                {"Model", target.model},
                {"Gateway's administration", target.admin.empty() ? unknown : target.admin},
                {"Workers", target.workers.empty() ? unknown : fmt::format("{} known", target.workers.size())}};
  for (const spec::ArmSpec& arm : spec::arms_of(analysis.sweep())) {
    std::string how;
    if (!arm.url.empty()) how += arm.url;
    if (arm.mode) how += fmt::format("{}mode {}", how.empty() ? "" : ", ", spec::to_string(*arm.mode));
    if (!arm.command.empty()) how += fmt::format("{}after the command {}", how.empty() ? "" : ", ", arm.command);
    table.rows.push_back({"Arm " + arm.arm.name(), how.empty() ? "the target as it is" : how});
  }
  for (const auto& [key, value] : analysis.run().machine) table.rows.push_back({"Load generator's " + key, value});
  document.push_back(render::Heading{2, "Deployment Details"});
  document.push_back(render::Paragraph{{{"A target that ran already. What it does not tell is unknown: -."}}});
  document.push_back(std::move(table));
}

}  // namespace kvist::report
