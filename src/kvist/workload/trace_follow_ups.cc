#include "kvist/workload/trace_follow_ups.h"

#include <algorithm>
#include <utility>

namespace kvist::workload {

TraceFollowUps::TraceFollowUps(const Trace& trace, spec::TraceSessions sessions, std::uint32_t tokens_per_hash)
    : trace_(&trace), tokens_per_hash_(tokens_per_hash), sessions_(trace.requests.size()) {
  const auto count = static_cast<std::uint32_t>(trace.requests.size());
  const bool follow = sessions == spec::TraceSessions::kFollow;
  const bool any = std::ranges::any_of(trace.requests, [](const TraceRequest& r) { return r.after.has_value(); });
  if (any && follow) {
    before_.assign(count, kNone);
    first_follower_.assign(count, kNone);
    next_follower_.assign(count, kNone);
  }
  for (std::uint32_t place = 0; place < count; ++place) {
    sessions_[place] = place;
    const TraceRequest& request = trace.requests[place];
    if (!follow || !request.after) {
      firsts_.push_back(place);
      continue;
    }
    const std::uint32_t before = request.after->request;
    sessions_[place] = sessions_[before];
    before_[place] = before;
    next_follower_[place] = std::exchange(first_follower_[before], place);
  }
  if (any) std::ranges::stable_sort(firsts_, {}, [&](std::uint32_t place) { return trace.requests[place].at; });
}

void TraceFollowUps::for_each_follower(std::uint32_t place, const std::function<void(std::uint32_t)>& call) const {
  if (before_.empty()) return;
  for (std::uint32_t at = first_follower_[place]; at != kNone; at = next_follower_[at]) call(at);
}

const TraceFollowUps::Said* TraceFollowUps::said_before(std::uint32_t place) const {
  if (before_.empty() || before_[place] == kNone) return nullptr;
  const auto kept = kept_.find(before_[place]);
  if (kept == kept_.end() || !kept->second.answered) return nullptr;
  if (!trace_->requests[place].after->has_answer) return nullptr;
  if (!begins_with(trace_->requests[place], trace_->requests[before_[place]])) return nullptr;
  return &kept->second.said;
}

// The last id of the earlier prompt may stand for what was left of it: only whole blocks are compared.
bool TraceFollowUps::begins_with(const TraceRequest& request, const TraceRequest& earlier) const {
  const std::size_t whole = std::min<std::size_t>(earlier.input_tokens / tokens_per_hash_, earlier.hash_ids.size());
  if (request.hash_ids.size() < whole) return false;
  return std::equal(earlier.hash_ids.begin(), earlier.hash_ids.begin() + static_cast<std::ptrdiff_t>(whole),
                    request.hash_ids.begin());
}

void TraceFollowUps::on_sent(std::uint32_t place, const std::vector<text::ChatMessage>& messages) {
  if (before_.empty()) return;
  if (const auto kept = kept_.find(before_[place]); kept != kept_.end() && --kept->second.followers == 0) {
    kept_.erase(kept);
  }
  std::uint32_t followers = 0;
  for_each_follower(place, [&](std::uint32_t) { ++followers; });
  if (followers > 0) kept_.emplace(place, Kept{.said = {.messages = messages}, .followers = followers});
}

void TraceFollowUps::on_answered(std::uint32_t place, std::string answer) {
  const auto kept = kept_.find(place);
  if (kept == kept_.end()) return;
  kept->second.said.answer = std::move(answer);
  kept->second.answered = true;
}

}  // namespace kvist::workload
