// Makes one ordered, complete stream of a worker's event frames, across gaps and restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/kv/stream_position.h"

namespace kvist::kv {

/// Apply the next batch in sequence.
struct ApplyPayload {
  std::string payload;     ///< the encoded batch
  std::uint64_t view = 0;  ///< what on_cleared() takes if the batch clears the cache
};
/// Forget all blocks of this worker.
struct ResetWorker {
  std::string reason;  ///< "publisher restarted", "events 5 to 9 are lost", ...
};
/// Ask the publisher for all frames that it buffers from a sequence number on.
struct RequestReplay {
  std::uint64_t from = 0;
};
/// What the owner of an EventSequencer has to do next.
using SequencerAction = std::variant<ApplyPayload, ResetWorker, RequestReplay>;

/// A state machine over the frames of one publisher (docs/formats/kv-events.md): live frames, replayed frames, the end
/// of a replay, and time. Each call returns what its owner has to do because of it, in this order. Threads: one, the
/// subscription's owner. Rules:
///  - Frames are applied in sequence order, each once. While a replay runs, live frames are kept (bounded) and applied
///    after it.
///  - A replay is asked for from the last applied frame on: a publisher that still has that very frame is in the same
///    run. A number that falls back without being a frame seen before, other content under a known number, or an empty
///    replay mean that the publisher restarted: the worker's blocks are forgotten and the new run is replayed from its
///    start.
///  - Events are lost when a replay starts later than requested, does not end within its deadline, leaves a gap open or
///    is overrun by live frames. Then the blocks are forgotten and the stream continues with the available frames.
///    Later, with growing pauses, the whole buffer is requested again, as long as it may reach further back than what
///    was applied.
///  - The same is done after a batch that could not be read (on_unreadable()).
///  - After a batch that clears the worker's cache, earlier losses no longer matter (on_cleared()).
///  - After a loss the owner may have the worker's blocks from elsewhere, up to a position of the stream (resume()): it
///    goes on from there, and only if the run is certainly the same, by a frame that both saw or by a replay.
///  - At most one replay is under way, and every wait has a deadline: call poll() at next_wakeup().
class EventSequencer {
 public:
  struct Options {
    bool replay_available = true;
    Duration replay_timeout = std::chrono::seconds(5);
    std::size_t max_buffered = 100'000;                    ///< frames kept during a replay
    std::size_t max_buffered_bytes = 256ULL << 20;         ///< their payloads together
    Duration rebuild_delay = std::chrono::seconds(10);     ///< from a loss to the first attempt to rebuild; doubles
    Duration max_rebuild_delay = std::chrono::minutes(5);  ///< the largest delay
    std::size_t max_kept_bytes = 64ULL << 20;              ///< payloads of keep_frames() together
  };
  struct Counters {
    std::uint64_t applied = 0;
    std::uint64_t gaps = 0;
    std::uint64_t replays = 0;
    std::uint64_t resets = 0;
    std::uint64_t restarts = 0;    ///< resets because the publisher started a new run
    std::uint64_t duplicates = 0;  ///< frames dropped because they were known, or came after their replay was given up
  };

  explicit EventSequencer(Options options);

  /// The subscription was connected, perhaps anew. Asks for all that the publisher still buffers and that was not
  /// applied yet.
  [[nodiscard]] std::vector<SequencerAction> on_connected(TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_live(std::uint64_t sequence, std::string payload, TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_replayed(std::uint64_t sequence, std::string payload, TimePoint now);
  [[nodiscard]] std::vector<SequencerAction> on_replay_end(TimePoint now);

  /// The publisher says, now and then, how many frames it has published, numbered from 0. Those of one report must have
  /// arrived by the next one. If they have not, they are asked for, because a loss at the end of the stream would
  /// otherwise show only when the next frame comes. Until they have come, the stream is not whole; what is known stays.
  [[nodiscard]] std::vector<SequencerAction> on_published(std::uint64_t count, TimePoint now);

  /// The publisher's process is a new one. It is asked for what it has, because the first frames may have been lost
  /// before it was connected, and further ones may not come for long.
  [[nodiscard]] std::vector<SequencerAction> on_restarted(TimePoint now);

  /// A batch with this `view` said that the worker's cache is empty. What was lost before that batch no longer matters,
  /// and a rebuild would bring nothing new. Does nothing if blocks were forgotten after the batch.
  void on_cleared(std::uint64_t view);

  /// A batch with this `view` could not be read, so what it said is missing. Its publisher may still have it as it was,
  /// or a snapshot in its place. So everything is asked for again, with growing pauses, and replaces what was applied
  /// if it reaches as far back. Does nothing if blocks were forgotten after the batch.
  void on_unreadable(std::uint64_t view, TimePoint now);

  /// How many applied frames are remembered, to distinguish a late duplicate from a restart. It is more than publishers
  /// buffer for replay (10,000), because a duplicate is at most as old as that.
  static constexpr std::size_t kRememberedFrames = 16'384;

  /// Whether something was lost, and no replay is under way that may bring it: blocks from elsewhere would help.
  [[nodiscard]] bool lost() const { return lost_since_reset_ && replay_ == Replay::kNone; }
  /// Where the stream stands; nothing unless it is whole and a frame was applied.
  [[nodiscard]] std::optional<StreamPosition> position() const;
  /// From here on the applied frames are kept, the latest of them, until resume() or drop_kept(): they follow a
  /// position that is about to be learned.
  void keep_frames() { keeping_ = true; }
  void drop_kept();
  /// Whether the stream can go on from a position.
  enum class Fit : std::uint8_t {
    kFits,
    kNotLost,   ///< nothing is missing, or a replay is under way
    kOtherRun,  ///< the newest frame that both have seen differs
    kTooOld,    ///< frames behind it are neither kept here nor to be had by a replay
    kUnproven,  ///< no frame was seen here and there, and there is no replay: the publisher may have restarted
  };
  [[nodiscard]] Fit fit(const StreamPosition& position) const;
  /// The owner has put the worker's blocks as they were at this position in the place of what it knew. What was applied
  /// since then is applied again; if it does not prove that the run is the same, or frames are missing, a replay has to
  /// bring them, and as always the blocks are forgotten where it does not. Requires: fit() is kFits.
  [[nodiscard]] std::vector<SequencerAction> resume(const StreamPosition& position, TimePoint now);

  /// When poll() is to be called; nothing if no deadline and no rebuild is pending.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const;
  /// Gives up a replay whose deadline has passed, or starts a rebuild that is due. May be called at any time.
  [[nodiscard]] std::vector<SequencerAction> poll(TimePoint now);

  /// Whether no gap is open and nothing was lost, so that the index built from this stream is exact. A loss at the end
  /// of the stream is only noticed when the next frame comes, or by on_published().
  [[nodiscard]] bool whole() const { return replay_ == Replay::kNone && !lost_since_reset_ && !behind(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  using Actions = std::vector<SequencerAction>;
  enum class Replay : std::uint8_t {
    kNone,
    kRunning,
    kDiscarding,  ///< given up, or of an ended run; the next replay waits for its end, so that frames never mix
  };
  enum class Known : std::uint8_t { kSame, kDifferent, kForgotten };

  [[nodiscard]] bool behind() const { return run_in_doubt_ || (due_ && next_.value_or(0) < *due_); }
  [[nodiscard]] Known recall(std::uint64_t sequence, const std::string& payload) const;
  [[nodiscard]] bool starts_run(std::uint64_t sequence) const;
  [[nodiscard]] bool certain_start(std::uint64_t sequence) const;
  [[nodiscard]] std::optional<bool> same_run(const StreamPosition& position) const;
  void apply(std::uint64_t sequence, std::string payload, Actions& actions);
  void keep(std::uint64_t sequence, const std::string& payload);
  void buffer_live(std::uint64_t sequence, std::string payload, TimePoint now, Actions& actions);
  void buffer(std::uint64_t sequence, std::string payload);
  [[nodiscard]] bool overfull() const;
  std::string take_buffered();
  void clear_buffered();
  void reset(std::string reason, Actions& actions);
  void forget_run(std::string reason, Actions& actions);
  void restart_from_live(std::uint64_t sequence, std::string payload, TimePoint now, Actions& actions);
  void restart_from_replay(std::uint64_t sequence, Actions& actions);
  void restart_during_replay(TimePoint now, Actions& actions);
  void start_replay(TimePoint now, Actions& actions);
  [[nodiscard]] bool catch_up(TimePoint now, Actions& actions);
  void end_replay();
  void abandon_replay(TimePoint now);
  void skip_to(std::uint64_t sequence, TimePoint now, Actions& actions);
  void rebuild_from(std::uint64_t sequence, const std::string& payload, Actions& actions);
  void drop_buffered_to(std::uint64_t sequence);
  [[nodiscard]] bool drop_known_buffered();
  void apply_buffered(Actions& actions);
  void merge_buffered(TimePoint now, Actions& actions);
  [[nodiscard]] std::string missing_before_buffered() const;
  void time_out(TimePoint now, Actions& actions);
  void give_up(std::string reason, TimePoint now, Actions& actions);
  void schedule_rebuild(TimePoint now);
  [[nodiscard]] bool reaches_back(std::uint64_t sequence) const;

  Options options_;
  Counters counters_;
  std::optional<std::uint64_t> published_;  // the publisher's last report
  std::optional<std::uint64_t> due_;        // the report before: these frames must be here
  std::optional<std::uint64_t> next_;       // the sequence number expected next; nothing before a run's first frame
  std::deque<std::uint64_t> digests_;       // of the last applied payloads; the newest is that of frame next_ - 1
  std::uint64_t view_start_ =
      0;  // the first number applied since the last reset; 0 if what came before the view no longer matters
  bool counts_from_zero_ = false;  // the publisher's runs begin with 0, not with 1
  bool lost_since_reset_ = false;
  std::optional<TimePoint> rebuild_at_;  // when to ask for the whole buffer again
  Duration rebuild_delay_;
  bool unreadable_ = false;                   // a batch since the last reset could not be read
  std::optional<TimePoint> last_unreadable_;  // when that was last the case
  Duration unreadable_delay_;

  Replay replay_ = Replay::kNone;
  bool rebuilding_ = false;    // the replay asked for the whole buffer; its first frame replaces what was built so far
  bool run_in_doubt_ = false;  // until a replay has ended: the publisher may be in another run
  bool catching_up_ = false;   // the replay asked for the end of the stream; without an answer, the view stays
  std::optional<TimePoint> replay_deadline_;
  std::optional<TimePoint> stale_until_;        // until then, frames of an abandoned replay may still arrive
  std::optional<std::uint64_t> replay_start_;   // next_ when the replay was asked for
  std::optional<std::uint64_t> last_replayed_;  // number of the replay's last frame

  std::map<std::uint64_t, std::string> buffered_;  // frames that wait for a replay, by sequence number
  std::size_t buffered_bytes_ = 0;
  std::optional<std::uint64_t> last_live_;  // the highest live frame among them since the connection or the restart

  bool keeping_ = false;
  std::map<std::uint64_t, std::string> kept_;  // the last applied frames, without gaps
  std::size_t kept_bytes_ = 0;
};

}  // namespace kvist::kv
