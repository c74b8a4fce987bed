// A trace as the source of load.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/trace_spec.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_prompt.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Sends each request of a trace once, in order, each as a conversation of one turn whose id is its index in the trace.
/// Answers get the recorded length by max_tokens and ignore_eos (at least one token).
///  - Open loop: requests are sent at the recorded instants, counted from the first and divided by `speed`, whatever is
///    in flight. So the number in flight is bounded only by the trace's rate and the client's time-out.
///  - Closed loop: as many requests are in flight as there are places, and the next is sent as soon as one has ended.
/// The trace is shared and not changed. Threads: one.
class TraceSource final : public TurnSource {
 public:
  struct Options {
    spec::TraceLoop loop = spec::TraceLoop::kOpen;
    double speed = 1;               ///< above 0
    std::uint32_t concurrency = 1;  ///< closed loop; at least 1
    std::uint32_t tokens_per_hash = 512;
    std::uint64_t seed = 0;  ///< of prompts and answers
  };

  /// Requires: a trace and options within the bounds above.
  TraceSource(std::shared_ptr<const Trace> trace, const Options& options, TimePoint start);

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override;
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override;
  void stop() override { stopped_ = true; }

  [[nodiscard]] bool stopped() const override { return stopped_; }
  [[nodiscard]] std::uint32_t in_flight() const override { return in_flight_; }
  [[nodiscard]] std::uint64_t conversations_started() const override { return next_; }
  [[nodiscard]] std::uint64_t dropped_slots() const override { return 0; }

 private:
  [[nodiscard]] StartTurn turn_of(std::size_t index, TimePoint intended) const;

  const std::shared_ptr<const Trace> trace_;
  const Options options_;
  const TimePoint start_;
  const TracePrompts prompts_;
  std::size_t next_ = 0;
  std::vector<bool> is_in_flight_;  // by index in the trace
  std::uint32_t in_flight_ = 0;
  std::deque<TimePoint> free_since_;  // closed loop: one per free place, the longest free first
  bool stopped_ = false;
};

}  // namespace kvist::workload
