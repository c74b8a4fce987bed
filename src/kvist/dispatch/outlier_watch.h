// Ejects workers whose answers are failures, while those of the others are not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/attempt_failure.h"
#include "kvist/spec/resilience_spec.h"

namespace kvist::dispatch {

/// Whether a worker takes part, as far as its answers are concerned.
enum class Ejection : std::uint8_t {
  kIn,       ///< it does
  kOut,      ///< it is ejected
  kTrial,    ///< its ejection is over, and it gets one request
  kProbing,  ///< that request is under way
};
[[nodiscard]] std::string_view to_string(Ejection ejection);

/// The rule that ejected a worker.
enum class EjectionRule : std::uint8_t { kInARow, kShare, kTrialFailed };
inline constexpr std::size_t kEjectionRules = 3;
/// "failures_in_a_row", "failure_share", "trial_failed"
[[nodiscard]] std::string_view to_string(EjectionRule rule);

/// A worker that fails fast looks idle, so every policy that looks at load or time would give it everything. Health
/// checks do not notice, because its process is fine. So this class judges by the answers to requests. A worker is
/// ejected
///   - after `failures_in_a_row` failures without a good answer in between, or
///   - when at least `failure_share` of its latest `least_answers` or more answers within `window` were failures,
/// in both cases only if that is at least kTimesOthers times the share of all other workers, because what makes all
/// workers fail is the requests' fault. At most `most_of_fleet` of the usable workers are ejected at once; those that
/// died or were closed after their ejection do not count, on either side.
/// An ejection lasts `time`, and twice as long as the last one if the worker had been back for less than
/// kTimesWell times the last one, up to `longest_time`. Then one request at a time tries it out: a good answer brings
/// it back, a failure ejects it again. The first token of an answer counts as a good one, because an answer may last
/// for minutes. But if the worker failed within an answer that had begun, only a complete one is good: the next one
/// begins as well as that one did. A state machine of events. Threads: one.
class OutlierWatch {
 public:
  static constexpr double kTimesOthers = 3;
  static constexpr std::int64_t kTimesWell = 4;

  struct Worker {
    Ejection state = Ejection::kIn;
    std::uint32_t failures_in_a_row = 0;
    bool broke_off = false;  ///< the last failure was within an answer that had begun
    TimePoint since{};       ///< of `state`
    TimePoint until{};       ///< of kOut
    Duration time{};         ///< of the last ejection; 0: never ejected, or well for long enough
    std::array<std::uint64_t, kEjectionRules> ejections{};
    EjectionRule rule = EjectionRule::kInARow;  ///< of the last ejection, as are the next two
    AttemptFailure failure = AttemptFailure::kServerError;
    std::string problem = {};
    std::uint64_t over_cap = 0;  ///< failures that would have ejected it if `most_of_fleet` had allowed one more

    [[nodiscard]] std::uint64_t total_ejections() const { return ejections[0] + ejections[1] + ejections[2]; }
  };

  OutlierWatch(const spec::EjectionSpec& options, std::size_t workers);

  /// The workers that could be given requests if none were ejected, and how many of these are (not kIn).
  struct Usable {
    std::size_t workers = 0;
    std::size_t ejected = 0;
  };

  // Each returns whether the worker's state changed.
  /// The worker gave a good answer, or the first token of one (`complete` false).
  bool on_good(WorkerId worker, bool complete, TimePoint now);
  /// An attempt that began at `began` failed. `broke_off`: after its first token.
  bool on_failure(WorkerId worker, AttemptFailure failure, std::string_view problem, TimePoint began,
                  const Usable& usable, TimePoint now, bool broke_off = false);
  /// The worker got a request. If the worker was to be tried out, this request does that. Returns whether it does.
  bool on_given(WorkerId worker, TimePoint now);
  /// The request that tried the worker out ended without saying anything about it.
  bool on_trial_void(WorkerId worker, TimePoint now);
  /// The worker is a new process, so what the old one did is forgotten. If it was ejected, it may be tried out now.
  bool on_restarted(WorkerId worker, TimePoint now);

  /// The id belongs to another worker from here on.
  void forget(WorkerId worker);

  /// Whether an ejection is over by now, so that poll() would change a state. This costs one comparison.
  [[nodiscard]] bool is_due(TimePoint now) const { return now >= next_; }
  /// Ends the ejections whose time is over. Returns the workers that can be tried out.
  [[nodiscard]] std::vector<WorkerId> poll(TimePoint now);

  [[nodiscard]] const Worker& worker(WorkerId worker) const { return workers_.at(worker.value()); }
  /// Share of failures among the worker's answers within the last window.
  [[nodiscard]] double failure_share(WorkerId worker, TimePoint now) const;

 private:
  // Answers within one half of the window.
  struct Half {
    std::int64_t number = -1;
    std::uint64_t answers = 0;
    std::uint64_t failures = 0;
  };
  using Window = std::array<Half, 2>;

  [[nodiscard]] std::int64_t half_of(TimePoint now) const;
  void count(WorkerId worker, bool failure, TimePoint now);
  [[nodiscard]] Half within_window(const Window& window, TimePoint now) const;
  [[nodiscard]] double share_of_others(WorkerId worker, TimePoint now) const;
  void eject(WorkerId worker, EjectionRule rule, AttemptFailure failure, std::string_view problem, TimePoint now);
  void enter(Worker& worker, Ejection state, TimePoint now);
  void update_next();

  spec::EjectionSpec options_;
  std::vector<Worker> workers_;        // by WorkerId
  std::vector<Window> windows_;        // likewise
  TimePoint next_ = TimePoint::max();  // the earliest end of an ejection
};

}  // namespace kvist::dispatch
