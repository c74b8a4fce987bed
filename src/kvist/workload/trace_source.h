// A trace as the source of load.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/trace_spec.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_follow_ups.h"
#include "kvist/workload/trace_prompt.h"
#include "kvist/workload/turn_source.h"

namespace kvist::workload {

/// Sends each request of a trace once, each as a conversation of one turn whose id is its place in the trace. Answers
/// are made to have the recorded length (max_tokens and ignore_eos; at least one token).
///  - Open loop: at the recorded instants, counted from the first and divided by `speed`, whatever is in flight; a
///    request that follows another (TraceRequest::after) waits for that one's answer and for the recorded pause after
///    it.
///  - Closed loop: as many at once as there are places, in their order, the next as soon as one has ended; what follows
///    the one that ended comes first. Instants and pauses are not looked at.
/// If the ids of a request say so, it begins with the messages and the live answer of the request that it follows.
/// After the last request the source has nothing more to do. Threads: one; the trace is shared and not changed.
class TraceSource final : public TurnSource {
 public:
  struct Options {
    spec::TraceLoop loop = spec::TraceLoop::kOpen;
    spec::TraceSessions sessions = spec::TraceSessions::kFollow;  ///< ignore: every request by itself
    double speed = 1;                                             ///< above 0
    std::uint32_t concurrency = 1;                                ///< closed loop; at least 1
    std::uint32_t tokens_per_hash = 512;
    std::uint64_t seed = 0;  ///< of prompts and answers
    /// The part of the trace that is driven: chains of requests, by their order. In a closed loop it has its share of
    /// the places. Requires: no fewer places than parts.
    Shard shard = {};
  };

  /// Requires: a trace and options within the bounds above.
  TraceSource(std::shared_ptr<const Trace> trace, const Options& options, TimePoint start);

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  [[nodiscard]] std::vector<StartTurn> poll(TimePoint now) override;
  [[nodiscard]] std::vector<StartTurn> on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) override;
  void stop() override { stopped_ = true; }

  [[nodiscard]] bool stopped() const override { return stopped_; }
  [[nodiscard]] bool is_exhausted() const override { return stopped_ || started_ == requests_; }
  [[nodiscard]] std::uint32_t in_flight() const override { return in_flight_; }
  [[nodiscard]] std::uint64_t conversations_started() const override { return started_; }
  [[nodiscard]] std::uint64_t dropped_slots() const override { return 0; }

 private:
  [[nodiscard]] bool is_open() const { return options_.loop == spec::TraceLoop::kOpen; }
  [[nodiscard]] Duration scaled(Duration recorded) const;
  [[nodiscard]] TimePoint recorded_instant(std::uint32_t place) const;
  /// When the next request that follows no other is due; nothing if none is left.
  [[nodiscard]] std::optional<TimePoint> next_first() const;
  /// Requests of the chains that begin with a first of the part.
  [[nodiscard]] std::size_t count_requests() const;
  void take_up_followers(std::uint32_t place, TimePoint now);
  [[nodiscard]] StartTurn start(std::uint32_t place, TimePoint intended);

  const std::shared_ptr<const Trace> trace_;
  const Options options_;
  const TimePoint start_;
  const TracePrompts prompts_;
  TraceFollowUps follow_ups_;
  std::size_t requests_ = 0;                               // of the part
  std::size_t next_ = 0;                                   // of follow_ups_.firsts(), of the part
  std::set<std::pair<TimePoint, std::uint32_t>> waiting_;  // that follow an answer which is here: by when they are due
  std::vector<bool> is_in_flight_;                         // by place in the trace
  std::uint32_t in_flight_ = 0;
  std::uint64_t started_ = 0;
  std::deque<TimePoint> free_since_;  // closed loop: one per free place, the longest free first
  bool stopped_ = false;
};

}  // namespace kvist::workload
