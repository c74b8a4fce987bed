// The files of a run of `kvist loadgen --output`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/report/load_run.h"

namespace kvist::report {

/// Formats of other tools in which a run can be written.
enum class ExportFormat { kVllm, kAiperf, kGuidellm, kInferencePerf };
/// "vllm", "aiperf", "guidellm", "inference-perf", comma-separated; "all". Errors name the unknown word.
[[nodiscard]] Result<std::vector<ExportFormat>> parse_formats(const std::string& text);

/// summary.json: the run, its figures with intervals, the client (docs/formats/loadgen-output.md).
[[nodiscard]] std::string load_summary_json(const LoadRun& run, const LoadFigures& figures);
/// One line of requests.jsonl: a request with the gap before each of its chunks. `reports_cached` is that of the run.
[[nodiscard]] std::string request_line(const LoadRun& run, const workload::TurnSample& turn, bool reports_cached);

/// Writes summary.json, requests.jsonl and the files of each format into the folder, which has to exist. Returns their
/// paths.
[[nodiscard]] Result<std::vector<std::string>> write_load_files(const LoadRun& run, const LoadFigures& figures,
                                                                const std::filesystem::path& folder,
                                                                const std::vector<ExportFormat>& formats);

}  // namespace kvist::report
