// A service-level objective: limits of a level's figures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/base/error.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

using analysis::Headline;

/// The most that the figure may be, or the least if more of it is better; in the unit of the figure's key.
struct Objective {
  Headline figure = Headline::kTtftP95;
  double limit = 0;

  [[nodiscard]] bool is_least() const { return analysis::headline(figure).larger_is_better; }
  /// Whether a value is within the limit; the limit itself is.
  [[nodiscard]] bool allows(double value) const { return is_least() ? value >= limit : value <= limit; }
  /// Whether a level may break it because too little is asked of the system: rates and hit rates grow with the load.
  [[nodiscard]] bool needs_load() const { return is_least() && figure != Headline::kGoodPct; }
  bool operator==(const Objective&) const = default;
};

/// Objectives that must all hold. Invariant: it is not empty and has no figure twice.
using Slo = std::vector<Objective>;

/// "ttft_p95=600ms,itl_p99=80ms,error=1%,output_tokens_per_s=2000": figures by their key (spec::kFigureKeys), also
/// without _ms or _pct, with a duration, a percentage or a number. Instead of = a limit may be written as <= or >=, the
/// way in which the figure is limited. Errors name the part and what would be right.
[[nodiscard]] Result<Slo> parse_slo(std::string_view text);
/// Refuses figures that no level of the sweep can have.
[[nodiscard]] Result<void> check_measurable(const Slo& slo, const spec::SweepSpec& sweep);
/// Whether gaps between tokens have to be kept.
[[nodiscard]] bool needs_gaps(const Slo& slo);
/// Adds a limit on errors if the SLO has none, because a level with failed requests does not satisfy it.
[[nodiscard]] Slo with_error_limit(Slo slo, double max_error_pct);
/// The SLO as text, in the form that parse_slo() reads.
[[nodiscard]] std::string to_string(const Slo& slo);
/// "TTFT p95 <= 600 ms", "Output tokens/s >= 2000".
[[nodiscard]] std::string to_string(const Objective& objective);

}  // namespace kvist::planning
