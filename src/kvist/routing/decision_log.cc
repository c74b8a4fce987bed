#include "kvist/routing/decision_log.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::routing {

std::string_view to_string(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kPolicy:
      return "policy";
    case DecisionReason::kSafetyNet:
      return "safety_net";
  }
  return "unknown";
}

std::string_view to_string(AttemptState state) {
  switch (state) {
    case AttemptState::kUnderWay:
      return "under_way";
    case AttemptState::kCompleted:
      return "completed";
    case AttemptState::kFailed:
      return "failed";
  }
  return "unknown";
}

DecisionLog::DecisionLog(Options options) : options_(options) {
  KVIST_CHECK(options.decisions > 0 && options.candidates > 0, "a log holds something");
  best_.reserve(options.candidates + 1);
}

DecisionRecord& DecisionLog::next_place() {
  const std::size_t place = static_cast<std::size_t>(total_++ % options_.decisions);
  if (place == ring_.size()) return ring_.emplace_back();
  return ring_[place];
}

std::uint64_t DecisionLog::on_decided(const DecisionView& decision) {
  DecisionRecord& record = next_place();
  record.number = total_;
  record.request = decision.query.request;
  record.name.assign(decision.name);
  record.at = decision.at;
  record.mode = decision.mode;
  record.seed = decision.seed;
  record.policy_state = decision.policy_state;
  record.prompt_tokens = decision.query.prompt_tokens;
  record.block_size = decision.query.block_size;
  record.session = decision.query.session;
  record.ttft_weight = decision.query.ttft_weight;
  record.in_transit = decision.query.in_transit;
  record.recomputed = decision.query.recomputed;
  record.mean_waiting = decision.query.recomputed > 0 ? decision.query.mean_waiting : 0;
  record.first_blocks.assign(decision.query.blocks.begin(), decision.query.blocks.end());
  record.prompt_blocks = decision.prompt_blocks;
  record.excluded.assign(decision.excluded.begin(), decision.excluded.end());
  record.adapter = decision.adapter;
  record.session_worker = decision.session_worker;
  record.held_back.assign(decision.held_back.begin(), decision.held_back.end());
  record.chosen = decision.candidates[decision.chosen].worker;
  record.reason = decision.reason;
  record.after = {};
  keep_candidates(decision, record);
  return record.number;
}

void DecisionLog::keep_candidates(const DecisionView& decision, DecisionRecord& record) {
  const std::span<const Candidate> all = decision.candidates;
  const std::size_t most =
      decision.most_kept == 0 ? options_.candidates : std::min(options_.candidates, decision.most_kept);
  if (all.size() > most) {
    keep_best(decision, most, record);
  } else {
    record.candidates.assign(all.begin(), all.end());
  }
  record.left_out = static_cast<std::uint32_t>(all.size() - record.candidates.size() + decision.left_out);
  record.fleet = record.left_out > 0 && most > 1 ? decision.fleet : std::nullopt;
}

// A heap holds the best candidates so far, with their costs next to each other, so that most further candidates are
// compared with its top and nothing else.
void DecisionLog::keep_best(const DecisionView& decision, std::size_t most, DecisionRecord& record) {
  const std::span<const Candidate> all = decision.candidates;
  const std::size_t others = most - 1;
  best_.clear();
  for (std::uint32_t i = 0; i < all.size() && others > 0; ++i) {
    if (i == decision.chosen) continue;
    if (best_.size() == others) {
      if (!(all[i].cost < best_.front().cost)) continue;
      std::ranges::pop_heap(best_);
      best_.pop_back();
    }
    best_.push_back({.cost = all[i].cost, .position = i});
    std::ranges::push_heap(best_);
  }
  best_.push_back({.cost = all[decision.chosen].cost, .position = static_cast<std::uint32_t>(decision.chosen)});
  if (most > 1) keep_idle(all);
  std::ranges::sort(best_, {}, &Priced::position);
  record.candidates.clear();
  for (const Priced& one : best_) record.candidates.push_back(all[one.position]);
}

// Adds the cheapest idle candidate, unless there is an idle one already.
void DecisionLog::keep_idle(std::span<const Candidate> all) {
  const auto is_idle = [](const Candidate& candidate) { return candidate.load.requests == 0; };
  if (std::ranges::any_of(best_, [&](const Priced& kept) { return is_idle(all[kept.position]); })) return;
  std::optional<Priced> least;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (!is_idle(all[i])) continue;
    const Priced one{.cost = all[i].cost, .position = i};
    if (!least || one < *least) least = one;
  }
  if (least) best_.push_back(*least);
}

DecisionRecord* DecisionLog::find(std::uint64_t decision) {
  if (decision == 0 || decision > total_) return nullptr;
  DecisionRecord& record = ring_[static_cast<std::size_t>((decision - 1) % options_.decisions)];
  return record.number == decision ? &record : nullptr;
}

void DecisionLog::on_first_token(std::uint64_t decision, TimePoint now) {
  DecisionRecord* const record = find(decision);
  if (record != nullptr && !record->after.ttft) record->after.ttft = now - record->at;
}

void DecisionLog::on_usage(std::uint64_t decision, std::uint64_t cached_tokens) {
  if (DecisionRecord* const record = find(decision)) record->after.cached_tokens = cached_tokens;
}

void DecisionLog::on_failed(std::uint64_t decision, std::string_view failure) {
  if (DecisionRecord* const record = find(decision)) record->after.failure = failure.substr(0, kMaxFailureBytes);
}

void DecisionLog::on_finished(std::uint64_t decision, bool completed, std::uint64_t output_tokens, TimePoint now) {
  DecisionRecord* const record = find(decision);
  if (record == nullptr) return;
  record->after.state = completed ? AttemptState::kCompleted : AttemptState::kFailed;
  record->after.output_tokens = output_tokens;
  record->after.duration = now - record->at;
}

const DecisionRecord& DecisionLog::newest(std::size_t i) const {
  KVIST_CHECK(i < size(), "a decision that is in the ring");
  return ring_[static_cast<std::size_t>((total_ - 1 - i) % options_.decisions)];
}

}  // namespace kvist::routing
