// A level's timelines as one drawing: a column per worker, a row per gauge, and below them every turn's TTFT.
#pragma once

#include <string>

#include "kvist/analysis/timeline_view.h"

namespace kvist::report {

/// A <figure>; empty text for an empty view. All text is escaped; colours come from the page's style sheet (worker n
/// has the class t<n mod 8>). At most about 100 kB whatever the level.
[[nodiscard]] std::string render_timeline(const analysis::TimelineView& view, const std::string& title);

}  // namespace kvist::report
