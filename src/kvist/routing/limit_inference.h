// Infers the number of batch slots of a worker that does not report it, from the queueing that is observed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvist::routing {

/// There are two kinds of evidence. In the worker's reports, requests wait while others run, and the number running is
/// steady. In its answers, first tokens come far later than forecast, always with about the same number decoding.
/// Because the admission of a burst looks the same for a moment, three such reports or six such first tokens in a row
/// are needed. If more requests run than were inferred, the estimate rises at once. To fall it needs the evidence
/// again, because the limit may be KV memory, which changes. Where a router gives a worker no more than was inferred,
/// nothing would ever show that it was too few, as after a slow minute: so after kCalm observations of so many running
/// with nobody waiting the estimate rises by one. At the true limit that costs one request a wait in every kCalm. One
/// object per worker. Threads: one.
class LimitInference {
 public:
  /// The worker reported how many of its requests run and wait.
  void on_report(double running, double waiting) {
    if (!std::isfinite(running) || running < 1 || running > kMost) return;
    const auto n = static_cast<std::uint32_t>(running);
    explore(n, waiting > 0);
    weigh(reported_, n, waiting > 0, kReports, 1 + n / 16);
  }
  /// A first token came, and now `decoding` requests decode. `late`: it came far later than forecast.
  void on_first_token(std::uint32_t decoding, bool late) {
    explore(decoding, late);
    weigh(starved_, decoding, late && decoding >= kLeastDecoding, kLateTokens, 1);
  }
  /// The worker was replaced by another one.
  void restart() { *this = {}; }

  /// The inferred number, or 0 without evidence.
  [[nodiscard]] std::uint32_t batch_slots() const { return slots_; }

  static constexpr std::uint32_t kCalm = 32;

 private:
  static constexpr std::uint32_t kReports = 3;
  static constexpr std::uint32_t kLateTokens = 6;
  static constexpr std::uint32_t kLeastDecoding = 4;
  static constexpr double kMost = 1'000'000;
  struct Run {
    std::uint32_t most = 0;
    std::uint32_t least = 0;
    std::uint32_t length = 0;
  };
  void explore(std::uint32_t n, bool queueing) {
    if (slots_ == 0 || n < slots_) return;
    calm_ = queueing ? 0 : calm_ + 1;
    if (n > slots_) {
      slots_ = n;
    } else if (calm_ >= kCalm) {
      ++slots_;
    } else {
      return;
    }
    calm_ = 0;
  }
  void weigh(Run& run, std::uint32_t n, bool queueing, std::uint32_t evidence, std::uint32_t breath) {
    if (!queueing) {
      run = {};
      return;
    }
    run = run.length == 0 ? Run{n, n, 1} : Run{std::max(run.most, n), std::min(run.least, n), run.length + 1};
    // A full batch varies a little: when one request ends, the next is admitted a step later.
    if (run.most - run.least > breath) run = {n, n, 1};
    if (run.length >= evidence) slots_ = run.most;
  }

  std::uint32_t slots_ = 0;
  std::uint32_t calm_ = 0;  // observations in a row of `slots_` running and nobody waiting
  Run reported_;
  Run starved_;
};

}  // namespace kvist::routing
