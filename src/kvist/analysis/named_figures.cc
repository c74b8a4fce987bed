#include "kvist/analysis/named_figures.h"

#include <algorithm>

#include "kvist/analysis/level_figures.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

std::string format_tenths(std::optional<double> value) {
  return render::format_fixed(value, 1);
}
std::string format_hundredths(std::optional<double> value) {
  return render::format_fixed(value, 2);
}

}  // namespace

const std::array<NamedFigure, kPublishedFigures>& published_figures() {
  static constexpr std::array<NamedFigure, kPublishedFigures> kFigures = {{
      {"ttft_p50_ms", "TTFT p50", "ms", figure::ttft_p50_ms, 3, render::format_ms},
      {"ttft_p95_ms", "TTFT p95", "ms", figure::ttft_p95_ms, 3, render::format_ms},
      {"kv_hit_rate_pct", "KV hit rate", "%", figure::kv_hit_rate_pct, 3, render::format_pct},
      {"error_pct", "Error %", "%", figure::error_pct, 3, render::format_pct},
      {"actual_rps", "Actual RPS", "turns/s", figure::actual_rps, 6, format_hundredths},
      {"tops", "TOPS", "tokens/s", figure::tops, 6, format_tenths},
      {"tpot_p50_ms", "TPOT p50", "ms", figure::tpot_p50_ms, 3, render::format_ms},
      {"tpot_p95_ms", "TPOT p95", "ms", figure::tpot_p95_ms, 3, render::format_ms},
      {"latency_p50_ms", "Latency p50", "s", figure::latency_p50_ms, 3, render::format_ms_as_s},
      {"latency_p95_ms", "Latency p95", "s", figure::latency_p95_ms, 3, render::format_ms_as_s},
  }};
  return kFigures;
}

const NamedFigure* find_figure(std::string_view key) {
  const auto found = std::ranges::find(published_figures(), key, &NamedFigure::key);
  return found == published_figures().end() ? nullptr : &*found;
}

}  // namespace kvist::analysis
