#include "kvist/kv/event_sequencer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace kvist::kv {
namespace {

/// The number that marks the end of a replay; no frame may carry it.
constexpr std::uint64_t kEndMarker = std::numeric_limits<std::uint64_t>::max();

std::uint64_t digest(const std::string& payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

}  // namespace

EventSequencer::EventSequencer(Options options)
    : options_(options), rebuild_delay_(options.rebuild_delay), unreadable_delay_(options.rebuild_delay) {}

std::vector<SequencerAction> EventSequencer::on_connected(TimePoint now) {
  Actions actions;
  if (!options_.replay_available) return actions;
  // Frames that wait here were published before the request is sent, so the answer contains them too. After they are
  // dropped, all live frames from here on belong to one run of the publisher.
  clear_buffered();
  catching_up_ = false;
  rebuilding_ = rebuild_at_.has_value();
  if (rebuilding_) schedule_rebuild(now);
  if (replay_ == Replay::kNone)
    start_replay(now, actions);
  else
    replay_ = Replay::kDiscarding;
  return actions;
}

std::vector<SequencerAction> EventSequencer::on_live(std::uint64_t sequence, std::string payload, TimePoint now) {
  Actions actions;
  if (sequence == kEndMarker) return actions;
  if (next_ && sequence < *next_) {
    if (recall(sequence, payload) == Known::kSame)
      ++counters_.duplicates;
    else
      restart_from_live(sequence, std::move(payload), now, actions);
  } else if (replay_ != Replay::kNone) {
    buffer_live(sequence, std::move(payload), now, actions);
  } else if (next_ ? sequence == *next_ : certain_start(sequence)) {
    apply(sequence, std::move(payload), actions);
  } else {
    ++counters_.gaps;
    last_live_ = sequence;
    buffer(sequence, std::move(payload));
    if (options_.replay_available)
      start_replay(now, actions);
    else
      give_up(fmt::format("events {} to {} are lost and there is no replay", next_.value_or(0), sequence - 1), now,
              actions);
  }
  return actions;
}

std::vector<SequencerAction> EventSequencer::on_replayed(std::uint64_t sequence, std::string payload, TimePoint now) {
  Actions actions;
  if (replay_ != Replay::kRunning || sequence == kEndMarker) {
    ++counters_.duplicates;
    return actions;
  }
  const bool first = !last_replayed_;
  if (!first && sequence < *last_replayed_) {
    // The frames of one replay are in order, so these are two mixed replays. Waits for an end, then asks again.
    forget_run("replay out of order", actions);
    replay_ = Replay::kDiscarding;
    return actions;
  }
  last_replayed_ = sequence;
  if (std::exchange(rebuilding_, false) && next_) rebuild_from(sequence, payload, actions);
  if (next_ && sequence < *next_) {
    ++counters_.duplicates;
    if (recall(sequence, payload) == Known::kDifferent) restart_from_replay(sequence, actions);
  } else if (next_ ? sequence == *next_ : starts_run(sequence)) {
    apply(sequence, std::move(payload), actions);
  } else if (first) {
    skip_to(sequence, now, actions);
    apply(sequence, std::move(payload), actions);
  } else if (const auto known = buffered_.find(sequence); known == buffered_.end()) {
    // The replay has a gap: the rest waits, and the missing frames are requested again.
    buffer(sequence, std::move(payload));
    if (overfull()) give_up("too many events wait for a replay", now, actions);
  } else if (known->second != payload) {
    restart_from_replay(sequence, actions);
  }
  return actions;
}

std::vector<SequencerAction> EventSequencer::on_replay_end(TimePoint now) {
  Actions actions;
  stale_until_.reset();
  if (replay_ == Replay::kNone) return actions;
  if (replay_ == Replay::kRunning) run_in_doubt_ = false;
  if (replay_ == Replay::kDiscarding) {
    start_replay(now, actions);
  } else if (!last_replayed_ && next_ && !rebuilding_) {
    // The publisher does not know the last frame that it sent, so it has restarted.
    ++counters_.restarts;
    forget_run(fmt::format("publisher restarted: event {} is unknown to it", *next_ - 1), actions);
    start_replay(now, actions);
  } else {
    merge_buffered(now, actions);
  }
  return actions;
}

std::vector<SequencerAction> EventSequencer::on_published(std::uint64_t count, TimePoint now) {
  Actions actions;
  const auto before = std::exchange(published_, count);
  if (before && count < *before) return on_restarted(now);
  due_ = before;
  if (!behind()) return actions;
  if (catch_up(now, actions)) ++counters_.gaps;
  return actions;
}

std::vector<SequencerAction> EventSequencer::on_restarted(TimePoint now) {
  Actions actions;
  due_.reset();
  run_in_doubt_ = options_.replay_available;
  (void)catch_up(now, actions);
  return actions;
}

/// Asks for the end of the stream, or of whatever run the publisher is in. Returns false if it cannot, or is asking.
bool EventSequencer::catch_up(TimePoint now, Actions& actions) {
  if (!options_.replay_available || replay_ != Replay::kNone) return false;
  catching_up_ = true;
  start_replay(now, actions);
  return true;
}

void EventSequencer::on_cleared(std::uint64_t view) {
  if (view != counters_.resets) return;
  view_start_ = 0;
  lost_since_reset_ = false;
  unreadable_ = false;
  rebuild_at_.reset();
  rebuild_delay_ = options_.rebuild_delay;
}

/// A publisher of another version may never be understood: then the pauses reach their maximum.
void EventSequencer::on_unreadable(std::uint64_t view, TimePoint now) {
  if (view != counters_.resets || !options_.replay_available) return;
  unreadable_ = true;
  if (last_unreadable_ && now - *last_unreadable_ > 2 * options_.max_rebuild_delay)
    unreadable_delay_ = options_.rebuild_delay;
  last_unreadable_ = now;
  if (rebuild_at_) return;
  rebuild_at_ = now + unreadable_delay_;
  unreadable_delay_ = std::min(2 * unreadable_delay_, options_.max_rebuild_delay);
}

std::optional<TimePoint> EventSequencer::next_wakeup() const {
  return replay_ == Replay::kNone ? rebuild_at_ : replay_deadline_;
}

std::vector<SequencerAction> EventSequencer::poll(TimePoint now) {
  Actions actions;
  const auto wakeup = next_wakeup();
  if (!wakeup || now < *wakeup) return actions;
  if (replay_ == Replay::kRunning) {
    time_out(now, actions);
    return actions;
  }
  if (replay_ == Replay::kNone) {
    rebuilding_ = true;
    schedule_rebuild(now);  // in case this one fails too; cancelled when it brings a frame
  }
  start_replay(now, actions);
  return actions;
}

EventSequencer::Known EventSequencer::recall(std::uint64_t sequence, const std::string& payload) const {
  const std::uint64_t age = *next_ - sequence;
  if (age > digests_.size()) return Known::kForgotten;
  return digests_[digests_.size() - age] == digest(payload) ? Known::kSame : Known::kDifferent;
}

/// Publishers count from 0 or from 1. Which of the two this one does is known only once it has sent a 0: until then, a
/// publisher whose frame 0 is lost looks like one that begins with 1.
bool EventSequencer::starts_run(std::uint64_t sequence) const {
  return sequence == 0 || (sequence == 1 && !counts_from_zero_);
}

/// As starts_run(), for live frames: whether there was a 0 before a first 1 is left to the replay, if there is one.
bool EventSequencer::certain_start(std::uint64_t sequence) const {
  return sequence == 0 || (!options_.replay_available && starts_run(sequence));
}

/// Applies the next frame. The first frame of a run makes the view exact.
void EventSequencer::apply(std::uint64_t sequence, std::string payload, Actions& actions) {
  if (sequence == 0) counts_from_zero_ = true;
  if (!next_) {
    view_start_ = sequence;
    lost_since_reset_ = !starts_run(sequence);
  }
  if (!lost_since_reset_ && !unreadable_) {
    rebuild_at_.reset();
    rebuild_delay_ = options_.rebuild_delay;
  }
  if (keeping_) keep(sequence, payload);
  digests_.push_back(digest(payload));
  if (digests_.size() > kRememberedFrames) digests_.pop_front();
  next_ = sequence + 1;
  ++counters_.applied;
  actions.emplace_back(ApplyPayload{std::move(payload), counters_.resets});
}

void EventSequencer::buffer_live(std::uint64_t sequence, std::string payload, TimePoint now, Actions& actions) {
  if (const auto known = buffered_.find(sequence); known != buffered_.end()) {
    if (known->second == payload)
      ++counters_.duplicates;
    else
      restart_from_live(sequence, std::move(payload), now, actions);
    return;
  }
  // Live frames never overtake each other. So an earlier number that is not known belongs to another run.
  if (last_live_ && sequence < *last_live_) {
    restart_from_live(sequence, std::move(payload), now, actions);
    return;
  }
  last_live_ = sequence;
  buffer(sequence, std::move(payload));
  if (overfull()) give_up("too many events wait for a replay", now, actions);
}

void EventSequencer::buffer(std::uint64_t sequence, std::string payload) {
  buffered_bytes_ += payload.size();
  buffered_.emplace(sequence, std::move(payload));
}

bool EventSequencer::overfull() const {
  return buffered_.size() > options_.max_buffered || buffered_bytes_ > options_.max_buffered_bytes;
}

std::string EventSequencer::take_buffered() {
  std::string payload = std::move(buffered_.begin()->second);
  buffered_bytes_ -= payload.size();
  buffered_.erase(buffered_.begin());
  return payload;
}

void EventSequencer::clear_buffered() {
  buffered_.clear();
  buffered_bytes_ = 0;
  last_live_.reset();
}

void EventSequencer::reset(std::string reason, Actions& actions) {
  ++counters_.resets;
  unreadable_ = false;
  kept_.clear();
  kept_bytes_ = 0;
  actions.emplace_back(ResetWorker{std::move(reason)});
}

/// Resets to the initial state, in which nothing is known of the publisher, not even a loss.
void EventSequencer::forget_run(std::string reason, Actions& actions) {
  reset(std::move(reason), actions);
  next_.reset();
  digests_.clear();
  clear_buffered();
  lost_since_reset_ = false;
  rebuild_at_.reset();
  rebuilding_ = false;
  published_.reset();
  due_.reset();
  run_in_doubt_ = false;
  catching_up_ = false;
}

void EventSequencer::restart_from_live(std::uint64_t sequence, std::string payload, TimePoint now, Actions& actions) {
  ++counters_.restarts;
  forget_run(fmt::format("publisher restarted: its events fell back to {}", sequence), actions);
  if (!options_.replay_available || sequence == 0) {
    abandon_replay(now);
    apply(sequence, std::move(payload), actions);
    return;
  }
  last_live_ = sequence;
  buffer(sequence, std::move(payload));
  if (replay_ == Replay::kNone)
    start_replay(now, actions);
  else
    replay_ = Replay::kDiscarding;
}

/// The rest of the running replay belongs to the new run too, but lacks the run's start. So its end is waited for, and
/// then everything is requested.
void EventSequencer::restart_from_replay(std::uint64_t sequence, Actions& actions) {
  ++counters_.restarts;
  forget_run(fmt::format("publisher restarted: it has another event {}", sequence), actions);
  replay_ = Replay::kDiscarding;
}

/// Asks for the last applied frame, by which the run of the publisher is recognised, and all after it; for a rebuild or
/// a new run, for everything. If frames of an abandoned replay may still arrive, waits for them to pass first.
void EventSequencer::start_replay(TimePoint now, Actions& actions) {
  if (const auto stale_until = std::exchange(stale_until_, std::nullopt); stale_until && now < *stale_until) {
    replay_ = Replay::kDiscarding;
    replay_deadline_ = stale_until;
    return;
  }
  ++counters_.replays;
  replay_ = Replay::kRunning;
  replay_deadline_ = now + options_.replay_timeout;
  replay_start_ = next_;
  last_replayed_.reset();
  actions.emplace_back(RequestReplay{next_ && !rebuilding_ ? *next_ - 1 : 0});
}

void EventSequencer::end_replay() {
  replay_ = Replay::kNone;
  replay_deadline_.reset();
  rebuilding_ = false;
  catching_up_ = false;
}

/// Gives up a replay without its end. For a while, the rest of it may still arrive.
void EventSequencer::abandon_replay(TimePoint now) {
  if (replay_ != Replay::kNone) stale_until_ = now + options_.replay_timeout;
  end_replay();
}

/// The replay starts later than requested, because the publisher has nothing before `sequence` any more.
void EventSequencer::skip_to(std::uint64_t sequence, TimePoint now, Actions& actions) {
  reset(fmt::format("events {} to {} are lost: the publisher no longer has them", next_.value_or(0), sequence - 1),
        actions);
  drop_buffered_to(sequence);
  next_.reset();
  digests_.clear();
  schedule_rebuild(now);
}

/// Whether what was applied from this frame on is worth more than the present view. One with a batch that could not be
/// read is replaced by one of the same length.
bool EventSequencer::reaches_back(std::uint64_t sequence) const {
  if (sequence < view_start_) return true;
  return unreadable_ && (sequence == view_start_ || starts_run(sequence));
}

/// Handles the first frame of a rebuild, which replaces the view only if it reaches further back. It does so too if it
/// has a known number and another content than that frame had: a publisher may put what is left of the frames before
/// into one, under the number of the last of them.
void EventSequencer::rebuild_from(std::uint64_t sequence, const std::string& payload, Actions& actions) {
  const auto waiting = buffered_.find(sequence);
  const bool is_itself = sequence < *next_ ? recall(sequence, payload) != Known::kDifferent
                                           : waiting == buffered_.end() || waiting->second == payload;
  if (!reaches_back(sequence) && is_itself) {
    rebuild_at_.reset();
    return;
  }
  drop_buffered_to(sequence);
  reset("rebuilding from all the publisher still has", actions);
  next_.reset();
  replay_start_.reset();
  digests_.clear();
}

/// Drops waiting frames that the first frame of a replay stands for, whatever it is made of.
void EventSequencer::drop_buffered_to(std::uint64_t sequence) {
  while (!buffered_.empty() && buffered_.begin()->first <= sequence) take_buffered();
}

/// Drops waiting frames that the replay has brought too. Returns false if a known number has another content.
bool EventSequencer::drop_known_buffered() {
  while (next_ && !buffered_.empty() && buffered_.begin()->first < *next_) {
    if (recall(buffered_.begin()->first, buffered_.begin()->second) == Known::kDifferent) return false;
    take_buffered();
    ++counters_.duplicates;
  }
  return true;
}

void EventSequencer::apply_buffered(Actions& actions) {
  while (!buffered_.empty()) {
    const std::uint64_t sequence = buffered_.begin()->first;
    if (next_ ? sequence != *next_ : !starts_run(sequence)) return;
    apply(sequence, take_buffered(), actions);
  }
}

/// A replay has ended. Applies the frames that waited for it, and requests what is still missing as long as that makes
/// progress.
void EventSequencer::merge_buffered(TimePoint now, Actions& actions) {
  end_replay();
  if (!drop_known_buffered()) {
    restart_during_replay(now, actions);
    return;
  }
  apply_buffered(actions);
  if (buffered_.empty()) return;
  if (next_ != replay_start_)
    start_replay(now, actions);
  else
    give_up(missing_before_buffered(), now, actions);
}

void EventSequencer::restart_during_replay(TimePoint now, Actions& actions) {
  ++counters_.restarts;
  forget_run("publisher restarted during a replay", actions);
  start_replay(now, actions);
}

std::string EventSequencer::missing_before_buffered() const {
  return fmt::format("events {} to {} are lost", next_.value_or(0), buffered_.begin()->first - 1);
}

/// The end of a replay is overdue. If live frames follow its frames without a gap, only the end mark is missing and
/// nothing is lost. A rebuild that brought no frame leaves the view as it is, and so does a request for the stream's
/// end.
void EventSequencer::time_out(TimePoint now, Actions& actions) {
  const bool view_stays = rebuilding_ || catching_up_;
  const bool live_came = !buffered_.empty();
  abandon_replay(now);
  if (view_stays || (last_replayed_ && live_came)) {
    if (!drop_known_buffered()) {
      restart_during_replay(now, actions);
      return;
    }
    apply_buffered(actions);
    if (buffered_.empty()) return;
  }
  give_up("replay did not end in time", now, actions);
}

/// Continues with the waiting frames after their last gap. Earlier ones would only build a view that the gap makes
/// useless.
void EventSequencer::give_up(std::string reason, TimePoint now, Actions& actions) {
  abandon_replay(now);
  if (!drop_known_buffered()) {
    restart_during_replay(now, actions);
    return;
  }
  reset(std::move(reason), actions);
  lost_since_reset_ = true;
  schedule_rebuild(now);
  if (buffered_.empty()) return;
  auto start = std::prev(buffered_.end());
  while (start != buffered_.begin() && std::prev(start)->first + 1 == start->first) --start;
  const std::uint64_t from = start->first;
  while (buffered_.begin()->first < from) take_buffered();
  next_.reset();
  digests_.clear();
  while (!buffered_.empty()) {
    const std::uint64_t sequence = buffered_.begin()->first;
    apply(sequence, take_buffered(), actions);
  }
}

void EventSequencer::schedule_rebuild(TimePoint now) {
  if (!options_.replay_available) return;
  rebuild_at_ = now + rebuild_delay_;
  rebuild_delay_ = std::min(2 * rebuild_delay_, options_.max_rebuild_delay);
}

}  // namespace kvist::kv
