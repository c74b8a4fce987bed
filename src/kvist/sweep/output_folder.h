// A sweep's output folder, and its record before anything is measured.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::sweep {

/// Creates `<parent>/<name>-<UTC stamp>`, with a number appended if that exists, so that two sweeps never share a
/// folder.
[[nodiscard]] Result<std::string> make_output_folder(const std::string& parent, const std::string& name);

/// The run's record without levels: name, time, version, specification, machine.
[[nodiscard]] results::RunRecord run_head(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep
