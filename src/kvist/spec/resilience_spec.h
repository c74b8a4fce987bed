// What a gateway does about workers that fail.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/time.h"

namespace kvist::spec {

/// Which requests a gateway refuses because they would wait too long (dispatch/wait_admission.h).
struct AdmissionSpec {
  /// Nothing: a gateway refuses, a simulation does not, because its load is what is to be measured.
  std::optional<bool> enabled = {};
  Duration max_wait = std::chrono::seconds(10);  ///< that a burst may wait for its workers
  /// The same while a worker's queue does not become short again, for a request that takes as much of its time as the
  /// mean one; nothing: up to twice the time that a first token takes without a wait.
  std::optional<Duration> standing_wait = {};

  bool operator==(const AdmissionSpec&) const = default;
};

/// Which requests wait at the gateway until a worker's cache has room for them (dispatch/hold_check.h). In mode kv.
struct HoldSpec {
  std::optional<bool> enabled = {};              ///< nothing: as AdmissionSpec's
  Duration max_wait = std::chrono::seconds(60);  ///< at most, and admission's `max_wait` where that refuses requests

  bool operator==(const HoldSpec&) const = default;
};

/// How many retries all requests together may make (dispatch/dispatcher.h).
struct RetryBudgetSpec {
  double per_request = 0.2;  ///< added by each new request
  double per_second = 1;     ///< added with time, so that a quiet gateway recovers
  double most = 100;         ///< the upper bound of the balance
  double at_start = 20;

  bool operator==(const RetryBudgetSpec&) const = default;
};

/// When a worker whose answers are failures gets no more requests (dispatch/outlier_watch.h).
struct EjectionSpec {
  std::uint32_t failures_in_a_row = 5;  ///< 0: this rule is off
  double failure_share = 0.5;           ///< of its answers within `window`; 1: this rule is off
  std::uint32_t least_answers = 20;     ///< within `window`; with fewer a share says nothing
  Duration window = std::chrono::seconds(30);
  Duration time = std::chrono::seconds(5);            ///< of the first ejection; each further one takes twice as long
  Duration longest_time = std::chrono::seconds(300);  ///< of any ejection
  double most_of_fleet = 0.5;                         ///< the share of the usable workers that may be ejected at once

  bool operator==(const EjectionSpec&) const = default;
};

/// Which begun streams go on at another worker when theirs fails (gateway/resumable_answer.h).
struct MigrationSpec {
  bool enabled = true;
  std::uint32_t max = 3;                      ///< times that one answer may move
  std::uint32_t max_tokens = 32'768;          ///< of the answer so far; a longer one stays where it is
  std::uint64_t max_request_bytes = 1 << 20;  ///< the body is kept until the answer's end, if it is not larger

  bool operator==(const MigrationSpec&) const = default;
};

}  // namespace kvist::spec
