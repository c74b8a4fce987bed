#include "kvist/routing/working_set.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {
namespace {

/// All prompts that are learned from are booked on one worker, because it does not matter where they were.
constexpr WorkerId kAnyWorker{0};

}  // namespace

void WorkingSet::EndedPrompts::push(Ended ended) {
  blocks += view(ended.prompt).size();
  prompts.push_back(std::move(ended));
}

void WorkingSet::EndedPrompts::pop() {
  blocks -= view(prompts.front().prompt).size();
  prompts.pop_front();
}

std::uint32_t WorkingSet::begin(WorkerId worker, const BlockKeys& prompt, TimePoint now) {
  expire(now);
  std::uint32_t depth = 0;
  recent_.match(view(prompt), {&depth, 1});
  learn(prompt, depth, now);
  blocks_[worker.value()] += set_.add(worker, prompt);
  (void)recent_.add(kAnyWorker, prompt);
  return depth;
}

void WorkingSet::end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now) {
  if (view(prompt).empty()) return;
  if (!computed) {
    take_out({.at = now, .worker = worker, .prompt = prompt});
    (void)recent_.remove(kAnyWorker, prompt);
    return;
  }
  ended_.push({.at = now, .worker = worker, .prompt = prompt});
  recent_ends_.push({.at = now, .worker = worker, .prompt = prompt});
  ends_[view(prompt).back()] = now;
}

void WorkingSet::take_out(const Ended& ended) {
  blocks_[ended.worker.value()] -= set_.remove(ended.worker, ended.prompt);
}

void WorkingSet::expire(TimePoint now) {
  for (; is_due(ended_, kept_, now); ended_.pop()) take_out(ended_.prompts.front());
  for (; is_due(recent_ends_, kLongest, now); recent_ends_.pop()) {
    const Ended& old = recent_ends_.prompts.front();
    (void)recent_.remove(kAnyWorker, old.prompt);
    const kv::BlockHash last = view(old.prompt).back();
    if (const TimePoint* const at = ends_.find(last); at != nullptr && *at == old.at) ends_.erase(last);
  }
}

bool WorkingSet::is_due(const EndedPrompts& ended, Duration kept, TimePoint now) const {
  if (ended.prompts.empty()) return false;
  return ended.prompts.front().at + kept <= now || ended.prompts.size() > bounds_.prompts ||
         ended.blocks > bounds_.blocks;
}

void WorkingSet::clear(WorkerId worker) {
  std::erase_if(ended_.prompts, [&](const Ended& ended) {
    if (ended.worker != worker) return false;
    ended_.blocks -= view(ended.prompt).size();
    take_out(ended);
    return true;
  });
}

std::span<const std::uint32_t> WorkingSet::depths(const BlockKeys& prompt) {
  std::ranges::fill(depths_, 0);
  set_.match(view(prompt), depths_);
  return depths_;
}

// The deepest block that an earlier prompt has too is that prompt's last one, where this one goes on with it.
void WorkingSet::learn(const BlockKeys& prompt, std::uint32_t depth, TimePoint now) {
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
