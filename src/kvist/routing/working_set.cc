#include "kvist/routing/working_set.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::routing {

std::uint32_t WorkingSet::begin(WorkerId worker, const BlockKeys& prompt, TimePoint now) {
  const std::uint32_t depth = recent_.begin(prompt, now);
  if (is_open_) {
    expire(now);
    put_in(worker, prompt);
  }
  return depth;
}

void WorkingSet::end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now) {
  if (view(prompt).empty()) return;
  recent_.end(worker, prompt, computed, now);
  if (!is_open_) return;
  if (computed) {
    ended_.push({.at = now, .worker = worker, .prompt = prompt});
  } else {
    take_out(worker, prompt);
  }
}

void WorkingSet::expire(TimePoint now) {
  recent_.expire(now);
  if (!is_open_) return;
  if (now - asked_ > kUnasked) return close();
  for (; ended_.is_due(recent_.kept(), recent_.bounds(), now); ended_.pop())
    take_out(ended_.oldest().worker, ended_.oldest().prompt);
}

void WorkingSet::clear(WorkerId worker) {
  emptied_[worker.value()] = recent_.ended_in_all();
  ended_.remove_of(worker, [this](const RecentPrompts::Ended& ended) { take_out(ended.worker, ended.prompt); });
}

void WorkingSet::add_recent(TimePoint now) {
  std::uint64_t number = recent_.ended_in_all() - recent_.ended().size();
  for (const RecentPrompts::Ended& ended : recent_.ended()) {
    const bool was_cleared = number++ < emptied_[ended.worker.value()];
    if (was_cleared || ended.at + recent_.kept() <= now) continue;
    put_in(ended.worker, ended.prompt);
    ended_.push(ended);
  }
}

void WorkingSet::close() {
  is_open_ = false;
  set_ = PrefixUse();
  ended_ = {};
  std::ranges::fill(blocks_, 0U);
}

std::span<const std::uint32_t> WorkingSet::depths(const BlockKeys& prompt) {
  KVIST_CHECK(is_open_, "only an open working set is known by worker");
  std::ranges::fill(depths_, 0);
  set_.match(view(prompt), depths_);
  return depths_;
}

}  // namespace kvist::routing
