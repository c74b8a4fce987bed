#include "kvist/analysis/slow_turns.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace kvist::analysis {
namespace {

using results::TimelinePoint;
using results::WorkerTimeline;
using workload::TurnSample;

/// A prompt counts as prefilled again when at least this share of it, and this many tokens, were not cached: a
/// follow-up alone is some tens of tokens.
constexpr double kRefilledShare = 0.25;
constexpr std::uint64_t kRefilledTokens = 512;
/// A turn counts as delayed by other requests' prompts when so many of their tokens are queued: about 0.1 s on a GPU
/// with a 70B model.
constexpr std::uint64_t kQueuedPrefillTokens = 1'024;
/// KV memory counts as full from here: what is left may be too small for the next request.
constexpr double kKvFull = 0.9;
constexpr double kLongStepShare = 0.5;

SlowTurn::Reading reading_of(const TurnSample& turn, const WorkerTimeline& timeline) {
  const std::vector<TimelinePoint>& points = timeline.points;
  const auto after = std::ranges::upper_bound(points, turn.sent, {}, &TimelinePoint::at);
  const auto first = after == points.begin() ? after : after - 1;
  auto last = std::ranges::lower_bound(points, turn.first_token, {}, &TimelinePoint::at);
  if (last == points.end()) --last;
  SlowTurn::Reading reading;
  for (auto point = first; point <= last; ++point) {
    reading.running = std::max(reading.running, point->running);
    reading.waiting = std::max(reading.waiting, point->waiting);
    reading.prefill_backlog_tokens = std::max(reading.prefill_backlog_tokens, point->prefill_backlog_tokens);
    reading.step_ms = std::max(reading.step_ms, point->step_ms);
    if (timeline.kv_blocks > 0) {
      reading.kv_used = std::max(reading.kv_used, static_cast<double>(point->kv_blocks_used) / timeline.kv_blocks);
    }
  }
  if (first <= last) {
    reading.evictions = last->evictions - std::min(first->evictions, last->evictions);
    reading.preemptions = last->preemptions - std::min(first->preemptions, last->preemptions);
  }
  return reading;
}

SlowCause cause_of(const SlowTurn& turn, const WorkerTimeline& timeline, const std::string* previous_worker) {
  const SlowTurn::Reading& reading = *turn.reading;
  const std::uint64_t uncached = turn.prompt_tokens - std::min(turn.cached_tokens, turn.prompt_tokens);
  const bool refilled =
      uncached >= kRefilledTokens && static_cast<double>(uncached) >= kRefilledShare * turn.prompt_tokens;
  if (reading.preemptions > 0) return SlowCause::kPreemption;
  if (reading.waiting > 0 && timeline.max_batch_size > 0 && reading.running >= timeline.max_batch_size) {
    return SlowCause::kSlotWait;
  }
  if (reading.waiting > 0 && reading.kv_used >= kKvFull) return SlowCause::kKvMemoryWait;
  if (refilled && previous_worker != nullptr) {
    return *previous_worker == turn.worker ? SlowCause::kEvictedPrefix : SlowCause::kPrefixElsewhere;
  }
  if (refilled) return SlowCause::kOwnPrefill;
  if (reading.prefill_backlog_tokens >= uncached + kQueuedPrefillTokens) return SlowCause::kPrefillQueue;
  if (static_cast<double>(reading.step_ms) >= kLongStepShare * turn.ttft_ms) return SlowCause::kLongStep;
  return SlowCause::kNotVisible;
}

bool is_slow(const results::LevelRecord& level, const TurnSample& turn, double threshold_ms) {
  return turn.outcome == workload::TurnOutcome::kSucceeded && turn.first_token != TimePoint{} &&
         turn.sent >= level.measure_from && turn.sent <= level.measure_to && turn.ttft_ms() > threshold_ms;
}

}  // namespace

std::string_view to_string(SlowCause cause) {
  switch (cause) {
    case SlowCause::kPreemption:
      return "preemption";
    case SlowCause::kSlotWait:
      return "slot wait";
    case SlowCause::kKvMemoryWait:
      return "KV memory wait";
    case SlowCause::kEvictedPrefix:
      return "eviction, prefilled again";
    case SlowCause::kPrefixElsewhere:
      return "prefix on another worker";
    case SlowCause::kOwnPrefill:
      return "own prefill";
    case SlowCause::kPrefillQueue:
      return "prefill queue";
    case SlowCause::kLongStep:
      return "long step";
    case SlowCause::kNotVisible:
      return "not visible";
  }
  return "not visible";
}

std::vector<SlowTurn> find_slow_turns(const results::LevelRecord& level, double threshold_ms) {
  std::vector<SlowTurn> slow;
  if (level.timelines.empty()) return slow;
  std::map<std::pair<std::uint64_t, std::uint32_t>, const std::string*> worker_of;
  for (const TurnSample& turn : level.turns) worker_of[{turn.conversation.value(), turn.turn}] = &turn.worker;
  for (const TurnSample& turn : level.turns) {
    if (!is_slow(level, turn, threshold_ms)) continue;
    SlowTurn entry{.conversation = turn.conversation.value(),
                   .turn = turn.turn,
                   .worker = turn.worker,
                   .second = to_seconds(turn.sent - level.started),
                   .ttft_ms = turn.ttft_ms(),
                   .prompt_tokens = turn.prompt_tokens,
                   .cached_tokens = turn.cached_tokens,
                   .cause = SlowCause::kNotVisible,
                   .reading = std::nullopt};
    const auto timeline = std::ranges::find(level.timelines, turn.worker, &WorkerTimeline::worker);
    if (timeline != level.timelines.end() && !timeline->points.empty()) {
      entry.reading = reading_of(turn, *timeline);
      const auto before = turn.turn == 0 ? worker_of.end() : worker_of.find({turn.conversation.value(), turn.turn - 1});
      entry.cause = cause_of(entry, *timeline, before == worker_of.end() ? nullptr : before->second);
    }
    slow.push_back(std::move(entry));
  }
  std::ranges::sort(slow, [](const SlowTurn& a, const SlowTurn& b) {
    return std::tuple(-a.ttft_ms, a.conversation, a.turn) < std::tuple(-b.ttft_ms, b.conversation, b.turn);
  });
  return slow;
}

CauseCounts count_causes(const std::vector<SlowTurn>& turns) {
  CauseCounts counts{};
  for (const SlowTurn& turn : turns) ++counts[static_cast<std::size_t>(turn.cause)];
  return counts;
}

}  // namespace kvist::analysis
