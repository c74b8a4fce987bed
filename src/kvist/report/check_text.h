// A check against published figures in words: as blocks of a document, Markdown, JSON, and for a terminal.
#pragma once

#include <string>

#include "kvist/analysis/reference_check.h"
#include "kvist/render/document.h"

namespace kvist::report {

/// Tables side by side (published, measured, deviation), then the verdicts, under headings of `heading_level`.
void add_reference_check(render::Document& document, const analysis::ReferenceCheck& check, int heading_level);
/// The tables alone.
void add_figure_tables(render::Document& document, const analysis::ReferenceCheck& check, int heading_level);
/// "met", "missed by 1.2 points", "missed: 2 levels outside the seeds' range".
[[nodiscard]] std::string verdict_text(const analysis::FigureCheck& check);
/// The verdicts alone.
[[nodiscard]] render::Table verdict_table(const analysis::ReferenceCheck& check);
[[nodiscard]] std::string reference_check_markdown(const analysis::RunAnalysis& analysis,
                                                   const analysis::ReferenceCheck& check);
[[nodiscard]] std::string reference_check_json(const analysis::RunAnalysis& analysis,
                                               const analysis::ReferenceCheck& check);
[[nodiscard]] std::string reference_check_terminal(const analysis::ReferenceCheck& check);

}  // namespace kvist::report
