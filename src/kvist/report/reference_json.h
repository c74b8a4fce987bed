// A run as JSON in the published reference format (docs/formats/report-json.md).
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"

namespace kvist::report {

enum class JsonDetail {
  kPublished,  ///< the published keys alone
  kFull,       ///< with a "kvist" object per run, level and mode
};

/// Two modes and more: figures under a key per mode. One mode: flat levels and "mode".
[[nodiscard]] std::string reference_json(const analysis::RunAnalysis& analysis, JsonDetail detail);

}  // namespace kvist::report
