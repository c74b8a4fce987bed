// Notices that a server refuses a load as such, so that there is nothing to measure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// Looks at the first answers of a load. If all of them say that there is no such model or path (404), or that the
/// client may not use it (401, 403), so will all later ones. Any other answer ends its interest: a server that is full
/// or fails now and then is what a load is to show. Threads: one.
class RefusalWatch {
 public:
  /// So many answers are waited for, in case a server was only just becoming ready.
  static constexpr std::uint32_t kAnswers = 8;

  /// A load begins.
  void begin() { *this = {}; }
  /// `status`: of its answer; 0: there was none. Returns whether this was the answer that decided it.
  [[nodiscard]] bool on_finished(const workload::TurnSample& sample, int status);
  /// Why there is nothing to measure; nothing: there is.
  [[nodiscard]] const std::optional<std::string>& verdict() const { return verdict_; }

 private:
  std::uint32_t refused_ = 0;
  bool looks_ = true;
  std::optional<std::string> verdict_;
};

}  // namespace kvist::loadgen
