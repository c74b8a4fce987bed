#include "kvist/routing/recent_prompts.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {
namespace {

constexpr WorkerId kAnyWorker{0};

}  // namespace

void RecentPrompts::EndedPrompts::push(Ended ended) {
  blocks_ += view(ended.prompt).size();
  prompts_.push_back(std::move(ended));
}

void RecentPrompts::EndedPrompts::pop() {
  blocks_ -= view(prompts_.front().prompt).size();
  prompts_.pop_front();
}

bool RecentPrompts::EndedPrompts::is_due(Duration kept, const Bounds& bounds, TimePoint now) const {
  if (prompts_.empty()) return false;
  return prompts_.front().at + kept <= now || prompts_.size() > bounds.prompts || blocks_ > bounds.blocks;
}

std::uint32_t RecentPrompts::begin(const BlockKeys& prompt, TimePoint now) {
  expire(now);
  // All are booked on one worker, so what no other booking on it has is what no recent prompt has.
  const std::uint64_t unknown = use_.add(kAnyWorker, prompt);
  const auto depth = static_cast<std::uint32_t>(view(prompt).size() - unknown);
  learn(prompt, depth, now);
  return depth;
}

void RecentPrompts::end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now) {
  if (!computed) {
    (void)use_.remove(kAnyWorker, prompt);
    return;
  }
  ended_.push({.at = now, .worker = worker, .prompt = prompt});
  ++ended_in_all_;
  ends_[view(prompt).back()] = now;
  expire(now);  // here rather than in begin(), for which a client waits
}

void RecentPrompts::expire(TimePoint now) {
  for (; ended_.is_due(kLongest, bounds_, now); ended_.pop()) {
    const Ended& old = ended_.oldest();
    (void)use_.remove(kAnyWorker, old.prompt);
    const kv::BlockHash last = view(old.prompt).back();
    if (const TimePoint* const at = ends_.find(last); at != nullptr && *at == old.at) ends_.erase(last);
  }
}

// The deepest block that an earlier prompt has too is that prompt's last one, where this one goes on with it.
void RecentPrompts::learn(const BlockKeys& prompt, std::uint32_t depth, TimePoint now) {
  const std::span<const kv::BlockHash> blocks = view(prompt);
  if (blocks.empty()) return;
  const bool returns = 2 * std::size_t{depth} >= blocks.size();
  return_share_ += kShare * ((returns ? 1.0 : 0.0) - return_share_);
  if (!returns) return;
  const TimePoint* const ended = ends_.find(blocks[depth - 1]);
  if (ended == nullptr) return;  // it is still in flight, or they part there
  gap_seconds_ += kShare * (to_seconds(now - *ended) - gap_seconds_);
  kept_ = std::clamp(kShortest / 3 + from_milliseconds(1e3 * kGaps * gap_seconds_), kShortest, kLongest);
}

}  // namespace kvist::routing
