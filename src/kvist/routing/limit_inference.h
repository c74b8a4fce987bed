// How many batch slots a worker has that does not say so: inferred from queueing seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvist::routing {

/// Two kinds of evidence. Its reports: requests wait while others run, and the number running stays. What it does:
/// first tokens come far later than forecast, always at about the same number decoding. Either has to come three times
/// in a row, as a burst that is being admitted looks the same once. More seen running than inferred raises the estimate
/// at once; a lower one takes evidence (KV memory may be what limits it, and that changes). Pure; one per worker.
class LimitInference {
 public:
  /// A reading of the worker's own counts.
  void on_report(double running, double waiting) {
    if (!std::isfinite(running) || running < 1 || running > kMost) return;
    const auto n = static_cast<std::uint32_t>(running);
    if (slots_ != 0 && n > slots_) slots_ = n;
    weigh(reported_, n, waiting > 0, kReports, 1 + n / 16);
  }
  /// A first token came, with so many requests decoding by then; `late`: far later than forecast.
  void on_first_token(std::uint32_t decoding, bool late) {
    if (slots_ != 0 && decoding > slots_) slots_ = decoding;
    weigh(starved_, decoding, late && decoding >= kLeastDecoding, kLateTokens, 1);
  }
  /// The worker is another one.
  void restart() { *this = {}; }

  /// 0: nothing was seen that tells.
  [[nodiscard]] std::uint32_t batch_slots() const { return slots_; }

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
  void weigh(Run& run, std::uint32_t n, bool queueing, std::uint32_t evidence, std::uint32_t breath) {
    if (!queueing) {
      run = {};
      return;
    }
    run = run.length == 0 ? Run{n, n, 1} : Run{std::max(run.most, n), std::min(run.least, n), run.length + 1};
    // The batch of an engine breathes: one ends, the next is admitted a step later.
    if (run.most - run.least > breath) run = {n, n, 1};
    if (run.length >= evidence) slots_ = run.most;
  }

  std::uint32_t slots_ = 0;
  Run reported_;
  Run starved_;
};

}  // namespace kvist::routing
