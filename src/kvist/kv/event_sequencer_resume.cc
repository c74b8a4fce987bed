// Going on from a position of the stream that somebody else has reached.
#include <algorithm>
#include <utility>

#include "kvist/kv/event_sequencer.h"

namespace kvist::kv {

std::optional<StreamPosition> EventSequencer::position() const {
  if (!whole() || !next_ || digests_.empty()) return std::nullopt;
  return StreamPosition{
      .next = *next_, .digests = {digests_.begin(), digests_.end()}, .counts_from_zero = counts_from_zero_};
}

void EventSequencer::drop_kept() {
  keeping_ = false;
  kept_.clear();
  kept_bytes_ = 0;
}

/// Kept frames have no gap: after one, only those behind it are of use.
void EventSequencer::keep(std::uint64_t sequence, const std::string& payload) {
  if (!kept_.empty() && kept_.rbegin()->first + 1 != sequence) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_bytes_ += payload.size();
  kept_.emplace(sequence, payload);
  while (kept_bytes_ > options_.max_kept_bytes || kept_.size() > kRememberedFrames) {
    kept_bytes_ -= kept_.begin()->second.size();
    kept_.erase(kept_.begin());
  }
}

/// The newest frame that is remembered both here and there: whether it is the same. Older ones need not be: a publisher
/// may replay what is left of several frames as one, under the number of the last.
std::optional<bool> EventSequencer::same_run(const StreamPosition& position) const {
  if (!next_) return std::nullopt;
  const std::uint64_t end = std::min(*next_, position.next);
  const std::uint64_t age_here = *next_ - end;
  const std::uint64_t age_there = position.next - end;
  if (age_here >= digests_.size() || age_there >= position.digests.size()) return std::nullopt;
  return digests_[digests_.size() - 1 - age_here] == position.digests[position.digests.size() - 1 - age_there];
}

EventSequencer::Fit EventSequencer::fit(const StreamPosition& position) const {
  if (!lost()) return Fit::kNotLost;
  const std::optional<bool> same = same_run(position);
  if (same && !*same) return Fit::kOtherRun;
  if (options_.replay_available) return Fit::kFits;
  if (!same) return Fit::kUnproven;
  return position.next >= *next_ || kept_.contains(position.next) ? Fit::kFits : Fit::kTooOld;
}

std::vector<SequencerAction> EventSequencer::resume(const StreamPosition& position, TimePoint now) {
  Actions actions;
  const bool proven = same_run(position).value_or(false);
  const bool is_behind = next_ && position.next < *next_;
  const std::map<std::uint64_t, std::string> kept = std::exchange(kept_, {});
  drop_kept();
  ++counters_.resets;
  next_ = position.next;
  digests_.assign(position.digests.begin(), position.digests.end());
  counts_from_zero_ = counts_from_zero_ || position.counts_from_zero;
  view_start_ = 0;
  lost_since_reset_ = false;
  unreadable_ = false;
  rebuild_at_.reset();
  rebuild_delay_ = options_.rebuild_delay;
  clear_buffered();
  for (auto frame = kept.lower_bound(position.next); frame != kept.end(); ++frame) buffer(frame->first, frame->second);
  if (proven && (!is_behind || kept.contains(position.next))) {
    apply_buffered(actions);
    return actions;
  }
  // The replay begins with the position's last frame, by which the run is recognised.
  if (!buffered_.empty()) last_live_ = buffered_.rbegin()->first;
  run_in_doubt_ = true;
  start_replay(now, actions);
  return actions;
}

}  // namespace kvist::kv
