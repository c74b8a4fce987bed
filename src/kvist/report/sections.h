// The parts of a report, each appended to a document in the order sweep_document.cc calls them.
#pragma once

#include "kvist/analysis/run_analysis.h"
#include "kvist/render/document.h"

namespace kvist::report {

/// What was compared, what was gained with its interval, whether the client was fit, what was excluded; nothing without
/// levels.
void add_verdict(render::Document& document, const analysis::RunAnalysis& analysis);
/// "Test Methodology" and "Deployment Details": what was measured and how, as recorded in the run.
void add_method(render::Document& document, const analysis::RunAnalysis& analysis);
void add_deployment(render::Document& document, const analysis::RunAnalysis& analysis);

/// The tables that head a report: exact figures with their intervals. The first requires two modes.
void add_two_mode_headline(render::Document& document, const analysis::RunAnalysis& analysis);
void add_single_mode_headline(render::Document& document, const analysis::RunAnalysis& analysis, const spec::Arm& mode);
/// The published method beside the exact figures, where they part and why, and the published tables.
void add_published_method(render::Document& document, const analysis::RunAnalysis& analysis);
/// The published two-mode tables: results side by side, error rates, throughput, TPOT, latency. Requires two modes.
void add_two_mode_tables(render::Document& document, const analysis::RunAnalysis& analysis);
/// The published single-mode tables of one mode.
void add_single_mode_tables(render::Document& document, const analysis::RunAnalysis& analysis, const spec::Arm& mode);
/// Exact times multiplied by the time scale; nothing if the scale is 1.
void add_model_time(render::Document& document, const analysis::RunAnalysis& analysis, int heading_level);
/// The published bullets, computed: improvement, trend, peak, hit rates. Requires two modes.
void add_summary(render::Document& document, const analysis::RunAnalysis& analysis);

/// What a reader of a simulated run must know before the first figure; nothing for a live run.
void add_simulation_notice(render::Document& document, const analysis::RunAnalysis& analysis);
/// The step-time model of a simulated run: derived costs, every coefficient with unit and origin.
void add_model(render::Document& document, const analysis::RunAnalysis& analysis);
/// Mean, standard deviation and range of the published figures over repetitions; nothing if each level was measured
/// once.
void add_repetitions(render::Document& document, const analysis::RunAnalysis& analysis);
/// The slowest turns of the run and the likely causes per level; nothing if no timelines were recorded.
void add_slow_turns(render::Document& document, const analysis::RunAnalysis& analysis);

/// Of a run that was merged from several: how TPOT grows, what follows from the figures, and the parts with what each
/// gave, as in the published document of two sessions; nothing for another run.
void add_combined(render::Document& document, const analysis::RunAnalysis& analysis);

/// kvist's own sections.
void add_exact_percentiles(render::Document& document, const analysis::RunAnalysis& analysis);
/// The figures by turn and by prompt length.
void add_turn_groups(render::Document& document, const analysis::RunAnalysis& analysis);
/// Bounds of what caches could have saved; nothing if they are not known.
void add_cache_bounds(render::Document& document, const analysis::RunAnalysis& analysis);
/// In place of the deployment: a target that ran already.
void add_target(render::Document& document, const analysis::RunAnalysis& analysis);
void add_workers(render::Document& document, const analysis::RunAnalysis& analysis);
void add_hit_rate_check(render::Document& document, const analysis::RunAnalysis& analysis);
void add_load_generator(render::Document& document, const analysis::RunAnalysis& analysis);
void add_remarks(render::Document& document, const analysis::RunAnalysis& analysis);

}  // namespace kvist::report
