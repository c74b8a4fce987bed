#include "kvist/report/level_line.h"

#include <fmt/format.h>

#include "kvist/analysis/headline.h"
#include "kvist/report/client_text.h"
#include "kvist/report/estimate_text.h"

namespace kvist::report {

std::string level_line(const analysis::MeasuredLevel& level) {
  const auto figure = [&](analysis::Headline which) {
    const analysis::MeasuredLevel* const one = &level;
    return headline_cells({&one, 1}, analysis::headline(which)).front();
  };
  using enum analysis::Headline;
  return fmt::format("TTFT p50 {}, p95 {}, ITL p50 {}, p95 {}, {} tokens/s; client {}", figure(kTtftP50),
                     figure(kTtftP95), figure(kItlP50), figure(kItlP95), figure(kThroughput),
                     verdict_text(level.analysis.client));
}

}  // namespace kvist::report
