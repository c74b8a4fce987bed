// What a machine can drive: how many streams of the reference server, with a small error of the client. Plain values,
// the search for the limit, and the comparison of a later load with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::loadgen {

/// One number of streams, as it was measured. Errors are differences from the server's own record.
struct CalibrationStep {
  std::uint32_t streams = 0;  ///< at once
  double events_per_s = 0;    ///< tokens that were read
  double turns_per_s = 0;
  double ttft_error_p50_ms = 0;
  double ttft_error_p99_ms = 0;
  double itl_error_p50_ms = 0;
  double itl_error_p99_ms = 0;
  double server_late_p99_ms =
      0;                 ///< how far the server was behind its schedule; errors are counted from what it really did
  double cpu_share = 0;  ///< of the client, of one core
  std::uint64_t turns = 0;
  std::uint64_t failed = 0;  ///< turns that failed, or that the server's record does not have

  friend bool operator==(const CalibrationStep&, const CalibrationStep&) = default;
};

struct Calibration {
  std::string kvist_version;
  std::string measured_utc;
  std::map<std::string, std::string> machine;  ///< sweep::describe_machine()
  double first_ms = 50;
  double gap_ms = 20;
  std::uint32_t tokens = 50;           ///< of an answer
  double error_limit_ms = 1;           ///< both p99 have to be below
  std::vector<CalibrationStep> steps;  ///< by streams, ascending

  [[nodiscard]] bool holds(const CalibrationStep& step) const {
    return step.turns > 0 && step.failed == 0 && step.ttft_error_p99_ms < error_limit_ms &&
           step.itl_error_p99_ms < error_limit_ms;
  }
  /// The most streams below the first number at which the error was too large; null if it was too large at the fewest.
  [[nodiscard]] const CalibrationStep* limit() const;
  /// Puts the step in its place. If its number of streams was measured before, the better step is kept.
  void add(const CalibrationStep& step);
};

/// The number of streams to measure next, at most `most`. It is doubled until the error is too large; then it lies
/// between the last good and the first bad number, until these are a quarter apart. Nothing: the limit is known.
[[nodiscard]] std::optional<std::uint32_t> next_streams(const Calibration& calibration, std::uint32_t most);

[[nodiscard]] std::string calibration_json(const Calibration& calibration);
/// Reads a calibration's file. `name` is the file's, for errors.
[[nodiscard]] Result<Calibration> parse_calibration(std::string_view text, const std::string& name);

/// A load that is about to run, or has run. Nothing: not known.
struct DrivenLoad {
  std::optional<double> streams = {};  ///< at once
  std::optional<double> turns_per_s = {};
  std::optional<double> events_per_s = {};
};
/// A remark that says in which respect the load is beyond the limit: "... 4000 streams at once (1600)"; nothing if it
/// is not.
[[nodiscard]] std::optional<std::string> beyond_limit(const Calibration& calibration, const DrivenLoad& load);
/// Whether the calibration was measured on such a machine: one with the same processor and number of cores.
[[nodiscard]] bool same_machine(const Calibration& calibration, const std::map<std::string, std::string>& machine);

}  // namespace kvist::loadgen
