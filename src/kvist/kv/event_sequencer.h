// Keeps one worker's event stream whole: gaps are replayed, restarts start over, order is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::kv {

/// What the owner of an EventSequencer has to do next, in this order.
struct ApplyPayload {
  std::string payload;  ///< one encoded batch, the next in sequence
};
struct ResetWorker {
  std::string reason;  ///< forget all blocks of this worker: "publisher restarted", "events 5 to 9 are lost", ...
};
struct RequestReplay {
  std::uint64_t from = 0;  ///< ask the publisher for everything from this sequence number on
};
using SequencerAction = std::variant<ApplyPayload, ResetWorker, RequestReplay>;

/// Pure state machine over the frames of one publisher (docs/formats/kv-events.md): live frames, replayed frames, the
/// end of a replay, and time. While a replay runs, live frames are kept (bounded) and applied in sequence order after
/// it. A sequence number that falls back means a restart. A replay that does not end within its deadline, brings
/// nothing, or starts later than asked for leads to a reset: the worker's blocks are forgotten and the stream goes on
/// from what is at hand.
class EventSequencer {
 public:
  struct Options {
    bool replay_available = true;
    Duration replay_timeout = std::chrono::seconds(5);
    std::size_t max_buffered = 100'000;  ///< live frames kept during a replay
  };
  struct Counters {
    std::uint64_t applied = 0;
    std::uint64_t gaps = 0;
    std::uint64_t replays = 0;
    std::uint64_t resets = 0;
    std::uint64_t duplicates = 0;
  };

  explicit EventSequencer(Options options);

  /// A newly (re)connected subscription asks for all that the publisher still buffers.
  [[nodiscard]] std::vector<SequencerAction> on_connected(TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_live(std::uint64_t sequence, std::string payload, TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_replayed(std::uint64_t sequence, std::string payload, TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_replay_end(TimePoint now);

  [[nodiscard]] std::optional<TimePoint> next_wakeup() const;
  [[nodiscard]] std::vector<SequencerAction> poll(TimePoint now);

  /// True while no gap is open: the index built from this stream is exact.
  [[nodiscard]] bool whole() const { return !replaying_ && !lost_since_reset_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  Options options_;
  Counters counters_;
  std::optional<std::uint64_t> next_;  // the sequence number expected next
  bool replaying_ = false;
  bool lost_since_reset_ = false;
  std::optional<TimePoint> replay_deadline_;
  std::map<std::uint64_t, std::string> buffered_;  // live frames that wait for a replay, by sequence number
};

}  // namespace kvist::kv
