// A run of `kvist loadgen` in the result formats of other load generators: their names, units and nesting, so that
// their readers take the files as they are. What kvist does not measure is left out or null, never 0.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kvist/report/load_output.h"
#include "kvist/report/load_run.h"

namespace kvist::report {

/// Names and contents of a format's files (docs/formats/exports.md).
[[nodiscard]] std::vector<std::pair<std::string, std::string>> exported_files(ExportFormat format, const LoadRun& run,
                                                                              const LoadFigures& figures);

/// The names of all formats' files.
[[nodiscard]] std::vector<std::string> exported_names();

/// `vllm bench serve --save-result --save-detailed`.
[[nodiscard]] std::string vllm_json(const LoadRun& run, const LoadFigures& figures);
/// AIPerf's profile_export_aiperf.json and profile_export.jsonl.
[[nodiscard]] std::string aiperf_json(const LoadRun& run, const LoadFigures& figures);
[[nodiscard]] std::string aiperf_records(const LoadRun& run);
/// GuideLLM's benchmarks.json, version 2.
[[nodiscard]] std::string guidellm_json(const LoadRun& run, const LoadFigures& figures);
/// inference-perf's summary_lifecycle_metrics.json.
[[nodiscard]] std::string inference_perf_json(const LoadRun& run, const LoadFigures& figures);

}  // namespace kvist::report
