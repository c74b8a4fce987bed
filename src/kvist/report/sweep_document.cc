#include "kvist/report/sweep_document.h"

#include <fmt/format.h>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/comparison_text.h"
#include "kvist/report/reference_json.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

std::string level_range(const analysis::RunAnalysis& analysis) {
  const std::vector<std::uint32_t>& levels = analysis.concurrencies();
  if (levels.empty()) return "no levels";
  if (levels.size() == 1) return fmt::format("{}", levels.front());
  return fmt::format("{}-{}", levels.front(), levels.back());
}

std::string single_mode_title(const analysis::RunAnalysis& analysis, const spec::Arm& mode) {
  return fmt::format("Benchmark Sweep: {} Concurrency Scaling ({})", analysis::single_mode_name(mode),
                     level_range(analysis));
}

void add_reference_data(render::Document& document, const analysis::RunAnalysis& analysis) {
  document.push_back(render::Heading{2, "Reference Data (JSON)"});
  document.push_back(render::CodeBlock{"json", reference_json(analysis, JsonDetail::kPublished)});
}

void add_own_sections(render::Document& document, const analysis::RunAnalysis& analysis) {
  add_comparison(document, analysis);
  add_repetitions(document, analysis);
  add_exact_percentiles(document, analysis);
  add_slow_turns(document, analysis);
  add_workers(document, analysis);
  add_turn_groups(document, analysis);
  add_cache_bounds(document, analysis);
  add_hit_rate_check(document, analysis);
  add_load_generator(document, analysis);
  add_model(document, analysis);
  add_remarks(document, analysis);
}

void add_two_mode_body(render::Document& document, const analysis::RunAnalysis& analysis) {
  add_two_mode_headline(document, analysis);
  add_summary(document, analysis);
}

void add_single_mode_bodies(render::Document& document, const analysis::RunAnalysis& analysis) {
  for (const spec::Arm& mode : analysis.modes()) {
    if (analysis.modes().size() > 1) document.push_back(render::Heading{1, single_mode_title(analysis, mode)});
    add_single_mode_headline(document, analysis, mode);
  }
  add_model_time(document, analysis, 2);
}

}  // namespace

std::string title_of(const analysis::RunAnalysis& analysis) {
  const std::vector<spec::Arm>& modes = analysis.modes();
  const std::string_view combined = analysis.run().sources.empty() ? "" : "Combined ";
  if (modes.size() == 2)
    return fmt::format("{}Benchmark Sweep: {} vs {}", combined, analysis::title_name(modes[1]),
                       analysis::title_name(modes[0]));
  if (modes.size() == 1) return fmt::format("{}{}", combined, single_mode_title(analysis, modes.front()));
  return fmt::format("{}Benchmark Sweep: {} Routing Modes, Concurrency Scaling ({})", combined, modes.size(),
                     level_range(analysis));
}

render::Document build_document(const analysis::RunAnalysis& analysis, const render::Document& inserted) {
  const results::RunRecord& run = analysis.run();
  render::Document document;
  document.push_back(render::Heading{1, title_of(analysis)});
  const std::string& generated = run.finished_utc.empty() ? run.started_utc : run.finished_utc;
  std::string when = " " + render::format_utc(generated);
  if (!run.sources.empty()) when += fmt::format(" (combined from {} sweep sessions)", run.sources.size());
  document.push_back(render::Paragraph{{render::strong("Generated:"), {std::move(when)}}});
  if (run.finished_utc.empty() && !run.started_utc.empty()) {
    document.push_back(render::Paragraph{
        {render::strong("Not finished:"), {" levels of the plan are missing (kvist sweep or simulate --resume)."}}});
  }
  add_simulation_notice(document, analysis);
  add_verdict(document, analysis);
  document.push_back(render::PlotsHere{});
  add_method(document, analysis);
  add_deployment(document, analysis);
  if (analysis.modes().size() == 2) {
    add_two_mode_body(document, analysis);
  } else {
    add_single_mode_bodies(document, analysis);
  }
  add_published_method(document, analysis);
  add_combined(document, analysis);
  document.insert(document.end(), inserted.begin(), inserted.end());
  add_reference_data(document, analysis);
  add_own_sections(document, analysis);
  return document;
}

}  // namespace kvist::report
