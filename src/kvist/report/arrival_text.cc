#include "kvist/report/arrival_text.h"

#include <fmt/format.h>

#include "kvist/render/figures.h"

namespace kvist::report {

std::string_view law_name(spec::ArrivalKind kind) {
  switch (kind) {
    case spec::ArrivalKind::kClosed:
      return "closed";
    case spec::ArrivalKind::kConstant:
      return "constant";
    case spec::ArrivalKind::kPoisson:
      return "poisson";
    case spec::ArrivalKind::kBursty:
      return "gamma";
    case spec::ArrivalKind::kBursts:
      return "bursts";
  }
  return "closed";
}

std::string arrival_text(const analysis::ArrivalTest& test) {
  std::string text = fmt::format("{}: {:.3g}/s ordered, {}/s due, {}/s sent ({} starts, the latest {:.1f} ms late)",
                                 law_name(test.kind), test.ordered_per_s, render::format_fixed(test.scheduled_per_s, 2),
                                 render::format_fixed(test.sent_per_s, 2), test.arrivals, test.latest_ms);
  text += fmt::format("; gaps vary by {} (law: {:.2f}), counts disperse by {} (law: {:.2f})",
                      render::format_fixed(test.gap_variation, 2), test.expected_gap_variation,
                      render::format_fixed(test.dispersion, 2), test.expected_dispersion);
  if (test.ks_distance) {
    text += fmt::format(", Kolmogorov-Smirnov D {:.3f} (accepted to {}), p {:.2g}", *test.ks_distance,
                        analysis::kAcceptedDistance, *test.ks_probability);
    // Below a microsecond it is the rounding of instants, as in virtual time.
    if (test.gap_tolerance_ms > 0.002) text += fmt::format(", gaps taken to {:.2g} ms", test.gap_tolerance_ms);
  }
  if (test.refused > 0) text += fmt::format("; {} refused", test.refused);
  if (test.held_back.total() > 0) {
    text += fmt::format("; {} held back for lack of a place, {} of them never sent", test.held_back.total(),
                        test.held_back.not_sent);
  } else if (test.overdue > 0) {
    text += fmt::format("; {} late by more than a second", test.overdue);
  }
  return text + (test.as_ordered() ? ": as ordered" : ": NOT as ordered");
}

}  // namespace kvist::report
