// The calibration of this machine's load generator, as a file that later loads are held against.
#pragma once

#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/loadgen/calibration.h"

namespace kvist::cli {

/// Where `kvist loadgen calibrate` writes without --output: kvist/loadgen-calibration.json in XDG_STATE_HOME, otherwise
/// in ~/.local/state. Errors: neither variable is set.
[[nodiscard]] Result<std::string> usual_calibration_path();

/// What --calibration names: a file; "none"; empty: the usual one if it is there, and of this machine.
[[nodiscard]] Result<std::optional<loadgen::Calibration>> find_calibration(const std::string& wanted);

/// What is known of a load before it runs: the conversations at once of a closed loop; the turns of an open one at its
/// highest rate, and the tokens that their answers have.
[[nodiscard]] loadgen::DrivenLoad planned_load(const LoadOrder& order);

/// A remark for a load that is beyond the calibration; nothing if it is within, or there is none.
[[nodiscard]] std::optional<std::string> beyond_calibration(const std::optional<loadgen::Calibration>& calibration,
                                                            const loadgen::DrivenLoad& load);

/// Whether the load may begin: always unless `must_be_within`, which needs a calibration that the load is within.
[[nodiscard]] Result<void> check_calibration(const std::optional<loadgen::Calibration>& calibration,
                                             const loadgen::DrivenLoad& load, bool must_be_within);

}  // namespace kvist::cli
